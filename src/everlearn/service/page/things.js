// Things in the picture: boxes with names. A box is tapped to name or correct it, dragged where there
// is none, or moved with the keyboard. It is left, top, right, bottom in shares of the picture, as in
// the service.

import * as camera from "./camera.js";
import * as service from "./service.js";
import { $, correctionInWords, notify, reportErrors } from "./shared.js";
import * as strangers from "./strangers.js";

// A drag shorter than this many pixels is a tap.
const SHORTEST = 12;

const state = {
  on: false,
  shown: null, // the picture that the boxes belong to: { image, source }
  source: null, // the video or image it came from
  chosen: null, // the box to be named
  drag: null,
  stream: null, // of frames to the service, while the camera is looked at
  keep: false, // whether that stream keeps unknown things
};

export const isOn = () => state.on;
export const hasChosenBox = () => state.chosen !== null && state.shown !== null;

// The rectangle of the picture in the view, which shows all of it.
function pictureRectangle(source) {
  const view = $("view").getBoundingClientRect();
  const width = source.videoWidth || source.naturalWidth;
  const height = source.videoHeight || source.naturalHeight;
  const scale = Math.min(view.width / width, view.height / height);
  return {
    left: (view.width - width * scale) / 2,
    top: (view.height - height * scale) / 2,
    width: width * scale,
    height: height * scale,
  };
}

function position(shown, box) {
  const at = pictureRectangle(state.source);
  shown.style.left = `${at.left + box[0] * at.width}px`;
  shown.style.top = `${at.top + box[1] * at.height}px`;
  shown.style.width = `${(box[2] - box[0]) * at.width}px`;
  shown.style.height = `${(box[3] - box[1]) * at.height}px`;
}

// Buttons are reused, so that a finger or the keyboard focus stays on one between frames.
function show(things) {
  const layer = $("boxes");
  while (layer.children.length > things.length) layer.lastChild.remove();
  things.forEach((thing, place) => {
    const shown = layer.children[place] ?? newBox(layer);
    const words = thing.unknown ? "unknown" : thing.answers[0].name;
    shown.firstChild.textContent = words;
    shown.classList.toggle("unknown", thing.unknown);
    shown.setAttribute("aria-label", `${words}: name this thing`);
    shown.dataset.box = JSON.stringify(thing.box);
    position(shown, thing.box);
  });
}

function newBox(layer) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "box";
  made.append(document.createElement("span"));
  made.addEventListener("click", () => choose(JSON.parse(made.dataset.box), made.firstChild.textContent));
  layer.append(made);
  return made;
}

function mark(box) {
  state.chosen = box;
  $("chosen").hidden = false;
  position($("chosen"), box);
}

function choose(box, words) {
  mark(box);
  const typed = $("name").value.trim();
  if (typed) {
    teach(typed);
    return;
  }
  notify(words && words !== "unknown" ? `Not ${words}? Type its name and press Teach.` : "Type its name and press Teach.", 8);
  $("name").focus();
  $("name").dispatchEvent(new Event("input"));
}

export function clear() {
  state.chosen = null;
  $("chosen").hidden = true;
}

// The things found in a picture, or, for the camera, the tracks. Unknown things are kept on request.
async function findThings(source, picture) {
  const keep = strangers.keepsUnknowns();
  if (source.tagName !== "VIDEO") {
    const { things } = await service.find(picture, keep);
    if (keep && things.some((thing) => thing.unknown)) strangers.refreshSoon();
    return things;
  }
  if (state.keep !== keep) endStream();
  state.keep = keep;
  state.stream ??= service.findStream(keep);
  try {
    const { things, events } = await state.stream.look(picture);
    if (keep && events.some((event) => event.name === null)) strangers.refreshSoon();
    return things
      .sort((one, other) => one.track - other.track)
      .map(({ box, name }) => ({ box, unknown: name === null, answers: [{ name }] }));
  } catch (error) {
    endStream();
    throw error;
  }
}

function endStream() {
  state.stream?.close();
  state.stream = null;
}

// Each name once, in the order of things: "raccoon (2), cup".
function namesInWords(names) {
  const each = [...new Set(names)].map((name) => [name, names.filter((one) => one === name).length]);
  return each.map(([name, count]) => (count > 1 ? `${name} (${count})` : name)).join(", ");
}

export async function look(source) {
  if (state.chosen !== null) return; // the picture does not change while its box is being named
  const picture = await camera.wholeFrame(source);
  if (!picture || !state.on) return;
  const things = await findThings(source, picture);
  if (!state.on || state.chosen !== null) return;
  state.shown = picture;
  state.source = source;
  show(things);
  const known = things.filter((thing) => !thing.unknown).map((thing) => thing.answers[0].name);
  const words = known.length ? namesInWords(known) : "Nothing that was taught.";
  if ($("verdict").textContent !== words) $("verdict").textContent = words;
  $("verdict").classList.toggle("unknown", known.length === 0);
}

export async function teach(name) {
  const box = state.chosen;
  const picture = state.shown;
  if (!box || !picture || !name) return;
  await reportErrors(async () => {
    notify(correctionInWords(await service.correct(picture, name, box)));
    endStream(); // new tracks use what was just taught
    $("name").value = "";
    $("name").dispatchEvent(new Event("input"));
  });
  clear();
  if (state.source?.tagName === "IMG") await reportErrors(() => look(state.source));
}

// A box in the middle, for the arrow keys: they move it, with Shift they change its size.
function draw() {
  if (!state.shown) return;
  mark([0.25, 0.25, 0.75, 0.75]);
  notify("Arrow keys move the box, with Shift they change its size. Then type its name.", 8);
  $("chosen").focus();
  $("name").dispatchEvent(new Event("input"));
}

const STEP = 0.02;
const ARROWS = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };

function moveBox(event) {
  const step = ARROWS[event.key];
  if (!step || !state.chosen) return;
  event.preventDefault();
  const box = [...state.chosen];
  for (const axis of [0, 1]) {
    const most = 1 - box[axis + 2];
    const least = event.shiftKey ? box[axis] + STEP - box[axis + 2] : -box[axis];
    const by = Math.min(Math.max(step[axis], least), most);
    box[axis + 2] += by;
    if (!event.shiftKey) box[axis] += by;
  }
  mark(box);
}

function asShares(event) {
  const view = $("view").getBoundingClientRect();
  const at = pictureRectangle(state.source);
  const across = (event.clientX - view.left - at.left) / at.width;
  const down = (event.clientY - view.top - at.top) / at.height;
  return [Math.min(Math.max(across, 0), 1), Math.min(Math.max(down, 0), 1)];
}

function draggedBox(event) {
  const [x, y] = asShares(event);
  const [fromX, fromY] = state.drag.from;
  return [Math.min(x, fromX), Math.min(y, fromY), Math.max(x, fromX), Math.max(y, fromY)];
}

function connectDragging(layer) {
  layer.addEventListener("pointerdown", (event) => {
    if (event.target !== layer || !state.source) return;
    layer.setPointerCapture(event.pointerId);
    state.drag = { from: asShares(event), x: event.clientX, y: event.clientY };
    state.chosen = [0, 0, 0, 0];
  });
  layer.addEventListener("pointermove", (event) => {
    if (!state.drag) return;
    $("chosen").hidden = false;
    position($("chosen"), draggedBox(event));
  });
  layer.addEventListener("pointerup", (event) => {
    if (!state.drag) return;
    const box = draggedBox(event);
    const far = Math.hypot(event.clientX - state.drag.x, event.clientY - state.drag.y);
    state.drag = null;
    if (far < SHORTEST || box[2] <= box[0] || box[3] <= box[1]) clear();
    else choose(box, null);
  });
  layer.addEventListener("pointercancel", () => {
    state.drag = null;
    clear();
  });
}

export function stop() {
  endStream();
  state.shown = state.source = null;
  $("boxes").replaceChildren();
  clear();
}

export function connect(changed) {
  connectDragging($("boxes"));
  $("find").addEventListener("click", () => {
    state.on = !state.on;
    $("find").setAttribute("aria-pressed", String(state.on));
    $("boxes").hidden = $("draw").hidden = !state.on;
    $("view").classList.toggle("whole", state.on);
    stop();
    changed();
  });
  $("draw").addEventListener("click", draw);
  $("chosen").addEventListener("keydown", moveBox);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.chosen !== null) clear();
  });
}
