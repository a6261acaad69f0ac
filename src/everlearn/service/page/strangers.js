// Unknown pictures that were kept, in groups, to name, ignore or drop; kept only on request.

import * as camera from "./camera.js";
import * as service from "./service.js";
import { $, button, element, pictures, notify, reportErrors, throttled } from "./shared.js";
import { confirmedName } from "./spelling.js";

const SHOWN = 5;
const LATEST = 50;

let unknownBefore = false;
let seen = [];

export const keepsUnknowns = () => $("keep").checked;

// Whether the service should keep the next frame if it is unknown: only after an unknown frame, and
// if it does not look like one kept before.
export function shouldKeep() {
  if (!keepsUnknowns() || !unknownBefore) return false;
  const thumbnail = camera.lastThumbnail();
  if (seen.some((one) => camera.lookSame(one, thumbnail))) return false;
  seen = [...seen.slice(-LATEST), thumbnail];
  return true;
}

export function noteAnswer(answered) {
  unknownBefore = answered.unknown && !answered.ignored;
  if (unknownBefore && keepsUnknowns()) refreshSoon();
}

function card(group) {
  const field = element("input", { maxLength: 200, autocomplete: "off", placeholder: "Name" });
  field.setAttribute("list", "known");
  field.setAttribute("aria-label", `Name of these ${pictures(group.count)}`);
  const finish = (action, text) => async () => {
    await reportErrors(async () => {
      const name = await action();
      if (name === null) return;
      notify(text(name));
      await show();
    });
  };
  const named = finish(
    async () => {
      if (!field.value.trim()) throw new Error("Type a name first.");
      const name = await confirmedName(field.value.trim());
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

// Waits while a name is being typed, because its field would be replaced.
export const refreshSoon = throttled(500, () => {
  if ($("strangers").contains(document.activeElement)) refreshSoon();
  else reportErrors(show);
});

// Shows how strict unknown is; a value that is not in the list is added to it.
export async function showStrictness() {
  const { accept } = await service.strictness();
  const list = $("accept");
  if (![...list.options].some((one) => Number(one.value) === accept)) {
    list.append(element("option", { value: accept, textContent: `${Math.round(1000 * accept) / 10} %` }));
  }
  list.value = [...list.options].find((one) => Number(one.value) === accept).value;
}

async function setStrictness() {
  await service.setStrictness(Number($("accept").value));
  notify("Saved; it applies from the next answer on.");
}

export function connect(changed) {
  $("accept").addEventListener("change", () => reportErrors(async () => {
    await setStrictness();
    await changed();
  }));
  reportErrors(showStrictness);
  $("keep").checked = localStorage.getItem("keep-unknown") === "yes";
  $("keep").addEventListener("change", () => {
    localStorage.setItem("keep-unknown", $("keep").checked ? "yes" : "no");
  });
  reportErrors(show);
}
