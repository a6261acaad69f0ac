// Explains an answer, and reports accuracy.

import * as service from "./service.js";
import { $, button, element, pictures, progress, notify, reportErrors } from "./shared.js";

const DOUBTS = 12;

function thumbnailOf(id, text) {
  const made = element("img", { src: service.thumbnail(id), alt: text, loading: "lazy" });
  made.addEventListener("error", () => made.replaceWith(element("span", { textContent: text, className: "faint" })));
  return made;
}

function forgetOne(id, place) {
  return async () => {
    await reportErrors(async () => {
      await service.forgetOne(id);
      place().remove();
      notify("Forgot this picture; Undo brings it back.");
    });
  };
}

// Each picture with its effect on the score.
export async function why(picture) {
  if (!picture) return;
  const found = await reportErrors(() => service.why(picture));
  if (!found) return;
  const most = Math.max(...found.effects.map((one) => Math.abs(one.effect ?? 1)), 1e-9);
  const rows = found.effects.map((one) => {
    const share = one.effect === null ? 1 : one.effect / most;
    const bar = element("meter", { min: 0, max: 1, value: Math.abs(share) });
    bar.setAttribute("aria-label", `${share < 0 ? "against" : "for"} it: ${Math.round(100 * Math.abs(share))} %`);
    const side = share < 0 ? "speaks against it" : "speaks for it";
    const row = element(
      "li",
      {},
      thumbnailOf(one.id, `taught as ${one.name}`),
      element("span", { textContent: `${one.name}, ${side}` }),
      bar,
      button("Forget", `Forget this picture of ${one.name}`, forgetOne(one.id, () => row)),
    );
    return row;
  });
  $("why-title").textContent = `Why ${found.name}?`;
  $("why-list").replaceChildren(...rows);
  const without = found.answer_without["1"];
  $("why-text").textContent = found.decisive
    ? `A single picture decides this answer. Without it, the answer would be ${without ?? "unknown"}.`
    : `Without the first five pictures, the answer would be ${found.answer_without["5"] ?? "unknown"}.`;
  $("why-dialog").showModal();
}

export async function check() {
  progress("Looking at every picture", 0, 0);
  const found = await reportErrors(() => service.check());
  progress(null);
  if (!found) return null;
  const { right, of, interval } = found.accuracy;
  const percent = (share) => `${Math.round(100 * share)} %`;
  $("check-text").textContent =
    `Tested one at a time, as if it had not been taught, ${right} of ${pictures(of)} are recognised. ` +
    `Expect between ${percent(interval[0])} and ${percent(interval[1])} of new pictures like these.`;
  const doubts = found.mislabelled.slice(0, DOUBTS).map((one) => {
    const row = element(
      "li",
      {},
      thumbnailOf(one.id, `taught as ${one.name}`),
      element("span", { textContent: `taught as ${one.name}, looks like ${one.looks_like}` }),
      button("Forget", `Forget this picture of ${one.name}`, forgetOne(one.id, () => row)),
    );
    return row;
  });
  $("doubts").replaceChildren(...doubts);
  $("doubts-title").hidden = doubts.length === 0;
  $("checked").hidden = false;
  $("check-text").focus();
  return found;
}

export function connect(shownNow, checked) {
  $("why").addEventListener("click", () => why(shownNow()));
  $("check").addEventListener("click", async () => {
    const found = await check();
    if (found) checked(found);
  });
}
