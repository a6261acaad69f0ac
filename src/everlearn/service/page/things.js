// Things in the picture: boxes with names over it. Tap one to name or correct it, drag one where
// none is. A box is left, top, right, bottom in shares of the picture, as the service has it.

import * as camera from "./camera.js";
import * as service from "./service.js";
import { $, corrected, say, trying } from "./shared.js";

// A drag shorter than this many pixels is a tap.
const SHORTEST = 12;

const state = {
  on: false,
  shown: null, // the picture that the boxes are of: { image, source }
  source: null, // the video or image it came from
  chosen: null, // the box that is to be named
  drag: null,
  stream: null, // of frames to the service, while the camera is looked at
};

export const on = () => state.on;
export const chosen = () => state.chosen !== null && state.shown !== null;

// Where the picture lies in the view: it covers all of it, so that its edges may be outside.
function placed(source) {
  const view = $("view").getBoundingClientRect();
  const width = source.videoWidth || source.naturalWidth;
  const height = source.videoHeight || source.naturalHeight;
  const scale = Math.max(view.width / width, view.height / height);
  return {
    left: (view.width - width * scale) / 2,
    top: (view.height - height * scale) / 2,
    width: width * scale,
    height: height * scale,
  };
}

function put(mark, box) {
  const at = placed(state.source);
  mark.style.left = `${at.left + box[0] * at.width}px`;
  mark.style.top = `${at.top + box[1] * at.height}px`;
  mark.style.width = `${(box[2] - box[0]) * at.width}px`;
  mark.style.height = `${(box[3] - box[1]) * at.height}px`;
}

// The same buttons are kept, so that a finger or the keyboard does not lose one between frames.
function show(things) {
  const layer = $("boxes");
  while (layer.children.length > things.length) layer.lastChild.remove();
  things.forEach((thing, place) => {
    const mark = layer.children[place] ?? newMark(layer);
    const words = thing.unknown ? "unknown" : thing.answers[0].name;
    mark.firstChild.textContent = words;
    mark.classList.toggle("unknown", thing.unknown);
    mark.setAttribute("aria-label", `${words}: name this thing`);
    mark.dataset.box = JSON.stringify(thing.box);
    put(mark, thing.box);
  });
}

function newMark(layer) {
  const mark = document.createElement("button");
  mark.type = "button";
  mark.className = "box";
  mark.append(document.createElement("span"));
  mark.addEventListener("click", () => choose(JSON.parse(mark.dataset.box), mark.firstChild.textContent));
  layer.append(mark);
  return mark;
}

function choose(box, words) {
  state.chosen = box;
  const mark = $("chosen");
  mark.hidden = false;
  put(mark, box);
  const typed = $("name").value.trim();
  if (typed) {
    teach(typed);
    return;
  }
  say(words && words !== "unknown" ? `Not ${words}? Type its name and press Teach.` : "Type its name and press Teach.", 8);
  $("name").focus();
  $("name").dispatchEvent(new Event("input"));
}

export function clear() {
  state.chosen = null;
  $("chosen").hidden = true;
}

// In a picture what is found; before the camera tracks, whose names do not flicker.
async function found(source, picture) {
  if (source.tagName !== "VIDEO") return (await service.find(picture)).things;
  state.stream ??= service.findStream();
  try {
    const { things } = await state.stream.look(picture);
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

export async function look(source) {
  if (state.chosen !== null) return; // the picture stands still while its box is being named
  const picture = await camera.wholeFrame(source);
  if (!picture || !state.on) return;
  const things = await found(source, picture);
  if (!state.on || state.chosen !== null) return;
  state.shown = picture;
  state.source = source;
  show(things);
  const known = things.filter((thing) => !thing.unknown).map((thing) => thing.answers[0].name);
  const words = known.length ? known.join(", ") : "Nothing that was taught.";
  if ($("verdict").textContent !== words) $("verdict").textContent = words;
  $("verdict").classList.toggle("unknown", known.length === 0);
}

export async function teach(name) {
  const box = state.chosen;
  const picture = state.shown;
  if (!box || !picture || !name) return;
  await trying(async () => {
    say(corrected(await service.correct(picture, name, box)));
    endStream(); // tracks begin anew, and know it from the next frame on
    $("name").value = "";
    $("name").dispatchEvent(new Event("input"));
  });
  clear();
  if (state.source?.tagName === "IMG") await trying(() => look(state.source));
}

function share(event) {
  const view = $("view").getBoundingClientRect();
  const at = placed(state.source);
  const across = (event.clientX - view.left - at.left) / at.width;
  const down = (event.clientY - view.top - at.top) / at.height;
  return [Math.min(Math.max(across, 0), 1), Math.min(Math.max(down, 0), 1)];
}

function dragged(event) {
  const [x, y] = share(event);
  const [fromX, fromY] = state.drag.from;
  return [Math.min(x, fromX), Math.min(y, fromY), Math.max(x, fromX), Math.max(y, fromY)];
}

function connectDragging(layer) {
  layer.addEventListener("pointerdown", (event) => {
    if (event.target !== layer || !state.source) return;
    layer.setPointerCapture(event.pointerId);
    state.drag = { from: share(event), x: event.clientX, y: event.clientY };
    state.chosen = [0, 0, 0, 0];
  });
  layer.addEventListener("pointermove", (event) => {
    if (!state.drag) return;
    $("chosen").hidden = false;
    put($("chosen"), dragged(event));
  });
  layer.addEventListener("pointerup", (event) => {
    if (!state.drag) return;
    const box = dragged(event);
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
    $("boxes").hidden = !state.on;
    stop();
    changed();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.chosen !== null) clear();
  });
}
