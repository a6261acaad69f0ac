// Shared by all parts of the page.

export const $ = (id) => document.getElementById(id);
export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Returns a function that runs an action at most once in so many milliseconds, after its first
// call. (A timer restarted by each call would never end if calls come fast.)
export function throttled(milliseconds, action) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      action();
    }, milliseconds);
  };
}

export const pictures = (count) => (count === 1 ? "1 picture" : `${count} pictures`);

// What a correction did, in words.
export function correctionInWords({ name, moved_from: from, taught }) {
  if (from.length) return `Moved from ${from.join(", ")} to ${name}.`;
  return taught ? `Learned: ${name}` : `It is called ${name} already.`;
}

export function element(kind, properties = {}, ...children) {
  const made = Object.assign(document.createElement(kind), properties);
  made.append(...children);
  return made;
}

export function button(text, label, action) {
  const made = element("button", { type: "button", textContent: text, onclick: action });
  made.setAttribute("aria-label", label);
  return made;
}

let silence = 0;
export function notify(text, seconds = 4) {
  $("notice").textContent = text;
  $("notice").hidden = false;
  clearTimeout(silence);
  silence = setTimeout(() => { $("notice").hidden = true; }, seconds * 1000);
}

// Runs an action and returns its result; an error is shown, and null is returned.
export async function reportErrors(action) {
  try {
    return await action();
  } catch (error) {
    notify(error.message, 8);
    return null;
  }
}

// Shows the progress of long work, or hides it if the text is null. Without a total the bar only
// shows that work is running.
export function progress(text, done, total) {
  $("work").hidden = text === null;
  if (text === null) return;
  $("work-text").textContent = text;
  const bar = $("work-bar");
  if (total) Object.assign(bar, { max: total, value: done });
  else bar.removeAttribute("value");
}

// Opens a dialog; returns the value of the button that closed it, or "cancel".
export function choiceIn(dialog) {
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true });
  });
}

// Runs an action during which undo and redo are disabled: undo would take back a part of it.
let works = 0;
export async function whileWorking(action) {
  works += 1;
  showBusy();
  try {
    return await action();
  } finally {
    works -= 1;
    showBusy();
  }
}

// The operations that undo and redo would act on; null if there is none.
const operations = { undo: null, redo: null };
export const operationFor = (which) => operations[which];

export function setOperation(which, operation) {
  operations[which] = operation;
  const word = which === "undo" ? "Undo" : "Redo";
  const what = operation ? operationInWords(operation) : "nothing";
  $(which).title = `${word}: ${what}`;
  $(which).setAttribute("aria-label", `${word}: ${what}`);
  showBusy();
}

// An operation in words: what it did, to how many pictures, of which names.
export const operationInWords = ({ kind, count, names }) => {
  const lost = kind === "reembed" ? `, without pictures of ${some(names)} that could not be read` : ` (${some(names)})`;
  return `${kind}, ${pictures(count)}${names.length ? lost : ""}`;
};

const some = (names) => names.slice(0, 4).join(", ") + (names.length > 4 ? ", …" : "");

function showBusy() {
  for (const which of ["undo", "redo"]) $(which).disabled = works > 0 || !operations[which];
}
