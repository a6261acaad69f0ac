// The known names, each with its latest pictures. Names are text and never markup.

import * as service from "./service.js";
import { button, element, pictures as picturesInWords } from "./shared.js";

const PICTURES = 4;
const cards = new Map();

async function showPictures(place, name, count) {
  const found = await service.teachings(name, PICTURES, Math.max(0, count - PICTURES));
  const pictures = found
    .filter((teaching) => teaching.has_thumbnail)
    .reverse()
    .map((teaching) => element("img", { src: service.thumbnail(teaching.id), alt: "", loading: "lazy" }));
  place.replaceChildren(...pictures);
}

function card({ name, count }, actions) {
  const pictures = element("div", { className: "pictures" });
  const counted = element("span", { className: "faint", textContent: picturesInWords(count) });
  const found = element("span", { className: "found" });
  const made = element(
    "li",
    {},
    pictures,
    element("span", { className: "called", textContent: name }),
    counted,
    found,
    element(
      "div",
      { className: "row" },
      button("More", `Show more of ${name}`, () => actions.more(name)),
      button("Rename", `Rename ${name}`, () => actions.rename(name)),
      button("Forget", `Forget ${name}`, () => actions.forget(name, count)),
    ),
  );
  showPictures(pictures, name, count).catch(() => {});
  return { made, count, found };
}

// Shows the report of each name on its card, until the name is taught again.
export function showReport(report) {
  for (const [name, { found }] of cards) {
    const own = report.per_name[name];
    if (own) found.textContent = `${own.right} of ${own.of} right: ${report.advice[name]}`;
  }
}

// Shows the known names; unchanged cards are kept.
export function show(list, known, actions) {
  for (const name of cards.keys()) {
    if (!known.some((one) => one.name === name)) cards.delete(name);
  }
  for (const one of known) {
    const there = cards.get(one.name);
    if (!there || there.count !== one.count) cards.set(one.name, card(one, actions));
  }
  const sorted = [...known].sort((a, b) => b.last_taught - a.last_taught);
  const wanted = sorted.map((one) => cards.get(one.name).made);
  const there = [...list.children];
  if (wanted.length !== there.length || wanted.some((one, i) => one !== there[i])) {
    list.replaceChildren(...wanted);
  }
}

export function clearCards() {
  cards.clear();
}
