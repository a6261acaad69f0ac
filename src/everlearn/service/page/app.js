// The page: camera, answers, teaching. All state is in the service; closing this tab loses nothing.

import * as camera from "./camera.js";
import * as names from "./names.js";
import * as dropping from "./dropping.js";
import * as explaining from "./explaining.js";
import * as service from "./service.js";
import { $, operationInWords, choiceIn, correctionInWords, setOperation, pause, pictures, progress, notify, reportErrors, operationFor, throttled, whileWorking } from "./shared.js";
import { confirmedName } from "./spelling.js";
import * as strangers from "./strangers.js";
import * as things from "./things.js";

const FRAME_PAUSE = 120;
const FIND_PAUSE = 20;
const TEACH_PAUSE = 130;
const MOST_BARS = 5;

const state = {
  stop: null, // ends the camera
  source: null, // the video or image that answers are about
  shown: null, // the picture that the answer on the page is about: { image, source }
  teaching: false,
  session: service.newKey(), // combines answers to frames; a new one after something was learned
};

const typedName = () => $("name").value.trim();

// Answers.

// The name of an answer, or null for unknown; with a camera, that of the latest frames together.
function nameOf({ steady, unknown, answers }) {
  if (steady) return steady.name;
  return unknown ? null : answers[0].name;
}

function showAnswer(answered) {
  const verdict = $("verdict");
  const name = nameOf(answered);
  const unknown = answered.ignored ? "Ignored." : "Unknown. What is this?";
  const known = answered.probably && !answered.steady?.settled ? `Probably ${name}` : name;
  const words = name === null ? unknown : known;
  if (verdict.textContent !== words) verdict.textContent = words;
  verdict.classList.toggle("unknown", name === null);
  showBars(answered.answers.slice(0, MOST_BARS), name !== null);
  $("why").hidden = answered.answers.length === 0;
  $("wrong").hidden = answered.answers.length === 0;
  updateButtons();
  $("wrong-text").textContent = answered.unknown
    ? "Type its name and hold to teach, or tap the name it has."
    : "Wrong? Tap the right name, or type it and press Correct.";
}

// Buttons are reused, so that a finger or the keyboard focus stays on one between frames. If it is
// unknown, no probabilities are shown: they are conditional on being known.
function showBars(answers, known) {
  const list = $("bars");
  $("most-like").hidden = known || answers.length === 0;
  while (list.children.length > answers.length) list.lastChild.remove();
  answers.forEach((answer, place) => {
    const bar = list.children[place]?.firstChild ?? newBar(list);
    const share = known ? `${Math.round(100 * answer.probability)} %` : "";
    bar.style.setProperty("--share", known ? answer.probability.toFixed(3) : 0);
    bar.firstChild.textContent = answer.name;
    bar.lastChild.textContent = share;
    bar.dataset.name = answer.name;
    bar.setAttribute("aria-label", `It is ${answer.name}${known ? ` (${share})` : ""}`);
  });
}

function newBar(list) {
  const bar = document.createElement("button");
  bar.type = "button";
  const share = document.createElement("span");
  share.className = "share";
  bar.append(document.createElement("span"), share);
  bar.addEventListener("click", () => correct(bar.dataset.name));
  const item = document.createElement("li");
  item.append(bar);
  list.append(item);
  return bar;
}

async function answer(picture) {
  const session = state.source === $("video") ? state.session : null;
  const answered = await service.ask(picture, strangers.shouldKeep(), session);
  state.shown = picture;
  showAnswer(answered);
  strangers.noteAnswer(answered);
}

async function askAboutFrame() {
  const source = state.source;
  if (!source || document.hidden) return;
  if (things.isOn()) {
    if (source === $("video")) await things.look(source);
    return;
  }
  if (source !== $("video")) return;
  const picture = await camera.frame(source);
  if (picture) await answer(picture);
}

async function askContinuously() {
  let lost = false;
  for (;;) {
    try {
      await askAboutFrame();
      if (lost && state.source) {
        lost = false;
        notify("The service is back.");
        refreshNamesSoon();
      }
    } catch (error) {
      lost = error.status === 0;
      notify(error.message, 8);
      await pause(1000);
    }
    // Finding takes long enough by itself; a pause would only make boxes lag.
    await pause(things.isOn() ? FIND_PAUSE : FRAME_PAUSE);
  }
}

async function correct(typed) {
  const picture = state.shown;
  if (!picture || !typed) return;
  await reportErrors(async () => {
    const name = await confirmedName(typed);
    if (name === null) return;
    const done = await service.correct(picture, name);
    state.session = service.newKey();
    notify(correctionInWords(done));
    if (state.source !== $("video")) await answer(picture);
  });
}

// Teaching.

const teachWhileHeld = () => whileWorking(teachHeld);

// Frames taught while the button is held are one operation, undone together.
async function teachHeld() {
  const typed = typedName();
  if (things.hasChosenBox()) {
    const name = await reportErrors(() => confirmedName(typed));
    if (name) await things.teach(name);
    return;
  }
  if (state.teaching || !typed || !state.source) return;
  const group = service.newKey();
  state.teaching = true;
  const name = await reportErrors(() => confirmedName(typed));
  if (!name) {
    state.teaching = false;
    return;
  }
  $("view").classList.add("teaching");
  const seen = [];
  let taught = 0;
  await reportErrors(async () => {
    // At least once: the button may have been released during a question about the name.
    do {
      const picture = await camera.frame(state.source);
      const thumbnail = camera.lastThumbnail();
      if (picture && !seen.some((one) => camera.lookSame(one, thumbnail))) {
        seen.push(thumbnail);
        const { new: isNew } = await service.teach(picture, name, group);
        taught += isNew ? 1 : 0;
        $("taken").hidden = false;
        $("taken").textContent = pictures(taught);
      }
      if (state.source !== $("video")) break;
      await pause(TEACH_PAUSE);
    } while (state.teaching);
  });
  state.teaching = false;
  state.session = service.newKey();
  $("view").classList.remove("teaching");
  $("taken").hidden = true;
  notify(taught ? `Learned ${name} from ${pictures(taught)}` : `Learned nothing new about ${name}`);
  if (state.source === $("still")) await reportErrors(() => answer(state.shown));
}

function stopTeaching() {
  state.teaching = false;
}

function updateButtons() {
  // Pictures taught in between would divide the operation of the files.
  const busy = dropping.isTeaching();
  $("hold").disabled = busy || !typedName() || !state.source;
  $("correct").disabled = busy || !typedName() || !state.shown;
  $("hold").textContent = state.source === $("still") ? "Teach this picture" : "Hold to teach";
  if (things.hasChosenBox()) $("hold").textContent = "Teach this box";
}

// Camera and pictures.

function showSource(source) {
  state.source = source;
  $("video").hidden = source !== $("video");
  $("still").hidden = source !== $("still");
  $("empty").hidden = source !== null;
  $("camera-off").hidden = source === null;
  $("find").hidden = source === null;
  $("draw").hidden = source === null || !things.isOn();
  things.stop();
  $("camera-off").textContent = source === $("still") ? "Close picture" : "Stop camera";
  $("view").classList.toggle("full", source !== null);
  updateButtons();
}

async function startCamera() {
  try {
    state.stop = await camera.start($("video"));
    showSource($("video"));
  } catch (error) {
    const refused = error.name === "NotAllowedError";
    const missing = error.name === "NotFoundError";
    if (refused) notify("The camera was refused. Allow it in the browser, or drop pictures here.", 8);
    else if (missing) notify("There is no camera. Drop pictures here instead.", 8);
    else notify(error.message, 8);
  }
}

function stopLooking() {
  stopTeaching();
  state.stop?.();
  state.stop = null;
  state.shown = null;
  showSource(null);
  $("verdict").textContent = "Nothing to look at yet.";
  $("verdict").classList.remove("unknown");
  $("bars").replaceChildren();
  $("most-like").hidden = true;
  $("wrong").hidden = true;
  $("why").hidden = true;
}

async function askAbout(file) {
  state.stop?.();
  state.stop = null;
  state.shown = null; // nothing can be corrected until this picture is answered
  const still = $("still");
  const visible = await camera.showFile(still, file);
  if (!visible) notify(`This browser cannot show ${file.name}; it is sent to the service all the same.`);
  showSource(still);
  if (things.isOn() && visible) await things.look(still);
  else await answer(await camera.frame(still));
  updateButtons();
}

// Names.

const actions = {
  more(name) {
    $("name").value = name;
    updateButtons();
    $("name").focus();
    notify(`Show more of ${name} and hold to teach.`);
  },
  async rename(name) {
    $("new-name").value = name;
    const choice = await choiceIn($("rename"));
    const wanted = $("new-name").value.trim();
    if (choice !== "ok" || !wanted || wanted === name) return;
    await reportErrors(async () => {
      const spelled = await confirmedName(wanted, name);
      if (spelled !== null) await service.rename(name, spelled);
    });
  },
  async forget(name, count) {
    $("forget-text").textContent =
      `${name} and its ${count === 1 ? "picture" : pictures(count)}. ` +
      "Forgetting can be undone; erasing removes every byte and cannot.";
    const choice = await choiceIn($("forget"));
    if (choice !== "forget" && choice !== "erase") return;
    await reportErrors(async () => {
      const done = await service.forget(name, choice === "erase");
      if (choice === "erase") saveReceipt(done.receipt_file);
      notify(choice === "erase" ? eraseInWords(done.receipt) : `Forgot ${name}.`);
    });
  },
};

function eraseInWords(receipt) {
  const said = ["Erased; the receipt was saved."];
  if (receipt.pending) said.push("Some files could not be removed yet; the next change tries again.");
  if (receipt.remaining.length) {
    said.push(`Not erased, though computed from the pictures: ${receipt.remaining.join(", ")}.`);
  }
  return said.join(" ");
}

function saveReceipt(receipt) {
  const file = new Blob([receipt], { type: "application/json" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = "everlearn-receipt.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Maximum number of names shown; others are found by typing a part of them.
const MOST_NAMES = 200;

async function showNames() {
  const wanted = $("search").value.trim();
  const found = await service.names(wanted, MOST_NAMES + 1);
  const known = found.slice(0, MOST_NAMES);
  const more = found.length > MOST_NAMES;
  names.show($("names"), known, actions);
  $("finding").hidden = !more && !wanted;
  if (wanted) {
    $("total").textContent = more ? `the latest ${MOST_NAMES} found` : `${known.length} found`;
    return;
  }
  $("no-names").hidden = known.length > 0;
  $("export").hidden = known.length === 0;
  $("export").href = service.exported();
  $("check").hidden = known.length === 0;
  const total = known.reduce((sum, one) => sum + one.count, 0);
  const all = known.length ? `${known.length} known from ${total} pictures` : "";
  $("total").textContent = more ? `the latest ${MOST_NAMES}` : all;
  await showUndo();
  $("known").replaceChildren(
    ...known.map((one) => Object.assign(document.createElement("option"), { value: one.name })),
  );
}

const refreshNamesSoon = throttled(250, () => reportErrors(showNames));
$("search").addEventListener("input", refreshNamesSoon);

function onEvent(kind, facts) {
  if (kind === "progress") {
    if (!$("work").hidden) progress(`Checking: ${facts.done} of ${facts.of}`, facts.done, facts.of);
    return;
  }
  if (["named", "ignored", "dropped", "undone", "redone", "erased"].includes(kind)) strangers.refreshSoon();
  refreshNamesSoon();
}

// The service groups changes into operations: a dropped folder, frames taught together. The button
// names the operation; if there is a newer one, the service refuses.
async function undoOrRedo(which, step, word) {
  const operation = operationFor(which);
  if (!operation) return;
  await whileWorking(() => reportErrors(async () => {
    const done = await step(operation.id);
    notify(`${word}: ${operationInWords(done)}`);
    if (state.source === $("still")) await answer(state.shown);
  }));
  await showUndo();
}

const undo = () => undoOrRedo("undo", service.undo, "Undone");
const redo = () => undoOrRedo("redo", service.redo, "Redone");

async function showUndo() {
  const found = await service.undoable();
  for (const which of ["undo", "redo"]) setOperation(which, found[which]);
}

// Everything together.

function connect() {
  $("camera").addEventListener("click", startCamera);
  $("camera-off").addEventListener("click", stopLooking);
  $("name").addEventListener("input", updateButtons);
  $("correct").addEventListener("click", () => correct(typedName()));
  $("undo").addEventListener("click", undo);
  $("redo").addEventListener("click", redo);
  connectHolding($("hold"));
  dropping.connect($("view"), () => ({ ask: askAbout, name: typedName() }), () => {
    stopTeaching();
    updateButtons();
  });
  explaining.connect(() => state.shown, names.showReport);
  strangers.connect(async () => {
    state.session = service.newKey();
    if (state.source === $("still") && state.shown) await answer(state.shown);
  });
  things.connect(() => {
    $("bars").replaceChildren();
    $("most-like").hidden = $("why").hidden = $("wrong").hidden = true;
    updateButtons();
    if (state.source === $("still")) {
      reportErrors(async () => (things.isOn() ? things.look($("still")) : answer(await camera.frame($("still")))));
    }
  });
}

function connectHolding(hold) {
  hold.addEventListener("pointerdown", (event) => {
    hold.setPointerCapture(event.pointerId);
    teachWhileHeld();
  });
  for (const end of ["pointerup", "pointercancel", "blur"]) hold.addEventListener(end, stopTeaching);
  hold.addEventListener("contextmenu", (event) => event.preventDefault());
  hold.addEventListener("keydown", (event) => {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    if (!event.repeat) teachWhileHeld();
  });
  hold.addEventListener("keyup", stopTeaching);
  $("teach").addEventListener("submit", (event) => {
    event.preventDefault();
    hold.focus();
  });
}

// Listens to the Memory; with several, offers a choice.
async function connectMemories() {
  const served = await service.memories();
  let stopListening = service.listen(onEvent);
  if (served.length < 2) return;
  $("which").replaceChildren(
    ...served.map((name) => Object.assign(document.createElement("option"), { value: name, textContent: name })),
  );
  $("which-label").hidden = false;
  $("which").addEventListener("change", () => {
    service.choose($("which").value);
    names.clearCards();
    things.stop();
    state.session = service.newKey();
    $("checked").hidden = true;
    stopListening();
    stopListening = service.listen(onEvent);
    refreshNamesSoon();
    strangers.refreshSoon();
    reportErrors(strangers.showStrictness);
  });
}

connect();
reportErrors(connectMemories);
reportErrors(showNames);
askContinuously();
