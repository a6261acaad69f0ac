// A new name that looks like a misspelling of a known one is asked about before it is taught.

import * as service from "./service.js";
import { $, chosen } from "./shared.js";

// Names that were said to be new; they are not asked about again.
const isNew = new Set();

// The name that is meant, or null where nothing should be done. ``old`` is a name to be replaced.
export async function meant(name, old = null) {
  if (isNew.has(name)) return name;
  const { similar } = await service.similarName(name);
  if (similar === null || similar === old) return name;
  $("spelling-text").textContent = `${name} is a new name. Did you mean ${similar}?`;
  $("spelling-similar").textContent = similar;
  $("spelling-new").textContent = `${name}, a new name`;
  const choice = await chosen($("spelling"));
  if (choice === "similar") return similar;
  if (choice !== "new") return null;
  isNew.add(name);
  return name;
}
