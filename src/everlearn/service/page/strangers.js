// Kept unknown pictures in groups, to name, ignore or drop. They are kept only on request.

import * as camera from "./camera.js";
import * as service from "./service.js";
import { $, button, element, pictures, say, trying, within } from "./shared.js";
import { meant } from "./spelling.js";

const SHOWN = 5;
const LATEST = 50;

let unknownBefore = false;
let seen = [];

export const keepsUnknowns = () => $("keep").checked;

// Whether to keep a frame if it is unknown: the second unknown in a row, unlike those kept before.
export function wanted() {
  if (!keepsUnknowns() || !unknownBefore) return false;
  const glance = camera.glance();
  if (seen.some((one) => camera.nearlySame(one, glance))) return false;
  seen = [...seen.slice(-LATEST), glance];
  return true;
}

export function noticed(answered) {
  unknownBefore = answered.unknown && !answered.ignored;
  if (unknownBefore && keepsUnknowns()) soon();
}

function card(group) {
  const field = element("input", { maxLength: 200, autocomplete: "off", placeholder: "Name" });
  field.setAttribute("list", "known");
  field.setAttribute("aria-label", `Name of these ${pictures(group.count)}`);
  const finish = (action, text) => async () => {
    await trying(async () => {
      const name = await action();
      if (name === null) return;
      say(text(name));
      await show();
    });
  };
  const named = finish(
    async () => {
      if (!field.value.trim()) throw new Error("Type a name first.");
      const name = await meant(field.value.trim());
      if (name !== null) await service.nameStrangers(group.id, name);
      return name;
    },
    (name) => `Learned ${name} from ${pictures(group.count)}.`,
  );
  const form = element(
    "form",
    { onsubmit: (event) => { event.preventDefault(); named(); } },
    field,
    element("button", { textContent: "Name", className: "main" }),
  );
  const what = pictures(group.count) + (group.likely ? `, most like ${group.likely}` : "");
  const quiet = button("Ignore", `Ignore ${what}`, finish(() => service.ignoreStrangers(group.id), () => "Ignored from now on; Undo takes it back."));
  quiet.hidden = group.ignored;
  return element(
    "li",
    {},
    element(
      "div",
      { className: "pictures" },
      ...group.examples.slice(0, SHOWN).map((id) =>
        element("img", { src: service.strangerThumbnail(id), alt: "", loading: "lazy" })),
    ),
    element("span", { className: "faint", textContent: group.ignored ? `${what}, ignored` : what }),
    form,
    element(
      "div",
      { className: "row" },
      quiet,
      button("Drop", `Drop ${what}`, finish(() => service.dropStrangers(group.id), () => "Dropped; Undo brings them back.")),
    ),
  );
}

let shown = "";
export async function show() {
  const groups = await service.strangers();
  const now = JSON.stringify(groups);
  if (now === shown) return;
  shown = now;
  $("no-strangers").hidden = groups.length > 0;
  $("strangers").replaceChildren(...groups.map(card));
}

// Not while a name is typed: its field would be replaced.
export const soon = within(500, () => {
  if ($("strangers").contains(document.activeElement)) soon();
  else trying(show);
});

// How strict unknown is; a value set by another client is shown unchanged.
async function showStrictness() {
  const { accept } = await service.strictness();
  const list = $("accept");
  if (![...list.options].some((one) => Number(one.value) === accept)) {
    list.append(element("option", { value: accept, textContent: `${Math.round(1000 * accept) / 10} %` }));
  }
  list.value = [...list.options].find((one) => Number(one.value) === accept).value;
}

async function setStrictness() {
  await service.setStrictness(Number($("accept").value));
  say("The next answer follows it.");
}

export function connect(changed) {
  $("accept").addEventListener("change", () => trying(async () => {
    await setStrictness();
    await changed();
  }));
  trying(showStrictness);
  $("keep").checked = localStorage.getItem("keep-unknown") === "yes";
  $("keep").addEventListener("change", () => {
    localStorage.setItem("keep-unknown", $("keep").checked ? "yes" : "no");
  });
  trying(show);
}
