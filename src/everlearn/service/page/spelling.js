// Asks before a name is taught that looks like a misspelling of a known one.

import * as service from "./service.js";
import { $, choiceIn } from "./shared.js";

// Names confirmed to be new; they are not asked about again.
const isNew = new Set();

// The name to use, or null if the dialog was cancelled. ``old`` is a name to be replaced, which may
// be misspelled itself.
export async function confirmedName(name, old = null) {
  if (isNew.has(name)) return name;
  const { similar } = await service.similarName(name);
  if (similar === null || similar === old) return name;
  $("spelling-text").textContent = `${name} is a new name. Did you mean ${similar}?`;
  $("spelling-similar").textContent = similar;
  $("spelling-new").textContent = `${name}, a new name`;
  const choice = await choiceIn($("spelling"));
  if (choice === "similar") return similar;
  if (choice !== "new") return null;
  isNew.add(name);
  return name;
}
