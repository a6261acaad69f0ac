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

function newCard(first) {
  let group = first;
  const inWords = () => pictures(group.count) + (group.likely ? `, most like ${group.likely}` : "");
  const finish = (action, text) => async () => {
    await reportErrors(async () => {
      const name = await action();
      if (name === null) return;
      notify(text(name));
      await show();
    });
  };
  const field = element("input", { maxLength: 200, autocomplete: "off", placeholder: "Name" });
  field.setAttribute("list", "known");
  const named = finish(
    async () => {
      if (!field.value.trim()) throw new Error("Type a name first.");
      const name = await confirmedName(field.value.trim());
      if (name === null) return null;
      await service.nameStrangers(group.id, name);
      field.value = "";
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
  const images = element("div", { className: "pictures" });
  const said = element("span", { className: "faint" });
  const ignore = button("Ignore", "", finish(() => service.ignoreStrangers(group.id), () => "Ignored from now on; Undo takes it back."));
  const drop = button("Drop", "", finish(() => service.dropStrangers(group.id), () => "Dropped; Undo brings them back."));
  const made = element("li", {}, images, said, form, element("div", { className: "row" }, ignore, drop));
  const update = (latest) => {
    group = latest;
    said.textContent = group.ignored ? `${inWords()}, ignored` : inWords();
    field.setAttribute("aria-label", `Name of these ${pictures(group.count)}`);
    ignore.setAttribute("aria-label", `Ignore ${inWords()}`);
    ignore.hidden = group.ignored;
    drop.setAttribute("aria-label", `Drop ${inWords()}`);
    images.replaceChildren(...group.examples.slice(0, SHOWN).map((id) =>
      element("img", { src: service.strangerThumbnail(id), alt: "", loading: "lazy" })));
  };
  update(group);
  return { made, update, isTyping: () => field === document.activeElement && field.value !== "" };
}

// The cards by the id of their group. A card stays as long as its group, and while a name is being
// typed in it.
const cards = new Map();

let shown = "";
export async function show() {
  const groups = await service.strangers();
  const now = JSON.stringify(groups);
  if (now === shown) return;
  const known = new Set(groups.map((group) => group.id));
  for (const [id, card] of cards) {
    if (known.has(id)) continue;
    if (card.isTyping()) return refreshSoon();
    card.made.remove();
    cards.delete(id);
  }
  for (const group of groups) {
    const there = cards.get(group.id);
    if (there) there.update(group);
    else cards.set(group.id, newCard(group));
  }
  arrange(groups.map((group) => cards.get(group.id).made));
  $("no-strangers").hidden = groups.length > 0;
  shown = now;
}

// Moves all cards but the one with the keyboard focus, which would lose it.
function arrange(wanted) {
  const still = wanted.findIndex((card) => card.contains(document.activeElement));
  wanted.forEach((card, place) => {
    if (place < still) wanted[still].before(card);
    else if (place !== still) $("strangers").append(card);
  });
}

export const refreshSoon = throttled(500, () => reportErrors(show));

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
