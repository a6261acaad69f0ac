// The API as functions. The credentials come with the printed address: a cookie, and a key behind
// the # of the page's address. The key is kept in the storage of this origin, which pages of other
// ports cannot read, and is added to every address.

const STORAGE_KEY = "everlearn-page";

function takeKey() {
  const given = new URLSearchParams(location.hash.slice(1)).get("page");
  if (given) {
    localStorage.setItem(STORAGE_KEY, given);
    history.replaceState(null, "", location.pathname);
  }
  return given ?? localStorage.getItem(STORAGE_KEY);
}

const key = takeKey();

export class Refusal extends Error {
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

let memory = null;

export function choose(name) {
  memory = name;
}

function address(path, query = {}) {
  const given = new URLSearchParams(query);
  if (memory !== null) given.set("memory", memory);
  if (key) given.set("page", key);
  const text = given.toString();
  return `v1/${path}${text ? `?${text}` : ""}`;
}

async function send(path, { query, ...options } = {}) {
  let answer;
  try {
    answer = await fetch(address(path, query), { credentials: "same-origin", ...options });
  } catch {
    throw new Refusal(0, "CannotReach", "The service does not answer. Is it still running?");
  }
  if (answer.ok) return answer.json();
  let error = {};
  try {
    ({ error } = await answer.json());
  } catch {
    error = { kind: "ServiceFailed", message: `The service answered ${answer.status}.` };
  }
  if (answer.status === 401) {
    error.message = "The service was restarted with a new token. Open the address it printed.";
  }
  throw new Refusal(answer.status, error.kind, error.message);
}

// A change carries a key, so that it is made once even if it is sent again.
async function change(path, body, headers = {}, query = {}) {
  const options = {
    method: "POST",
    body,
    query,
    headers: { ...headers, "idempotency-key": newKey() },
  };
  try {
    return await send(path, options);
  } catch (error) {
    if (error.status !== 0 && error.status !== 503) throw error;
    await new Promise((resolve) => setTimeout(resolve, 500));
    return send(path, options);
  }
}

// crypto.randomUUID exists in secure contexts only; this works everywhere.
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("-");
}

function form(image, fields) {
  const body = new FormData();
  body.set("image", image, "image");
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  return body;
}

const JSON_KIND = { "content-type": "application/json" };
const changeJson = (path, value) => change(path, JSON.stringify(value), JSON_KIND);

const JPEG_KIND = { "content-type": "image/jpeg" };

// Frames of one session also get a combined answer: ``steady``.
export const ask = ({ image }, remember = false, session = null) =>
  send("ask", {
    method: "POST",
    body: image,
    headers: JPEG_KIND,
    query: { ...(remember ? { remember } : {}), ...(session ? { session } : {}) },
  });
export const strictness = () => send("strictness");
export const setStrictness = (accept) => changeJson("strictness", { accept });
export const why = ({ image }) => send("why", { method: "POST", body: image, headers: JPEG_KIND });
export const check = () => send("check");
export const strangers = () => send("strangers");
export const nameStrangers = (group, name) => changeJson("strangers/name", { group, name });
export const ignoreStrangers = (group) => changeJson("strangers/ignore", { group });
export const dropStrangers = (group) => changeJson("strangers/drop", { group });
export const strangerThumbnail = (id) => address(`strangers/${id}/thumbnail`);
export const teach = ({ image, source }, name, group) =>
  change("teach", form(image, { name, source, group }));
// A picture is { image, source }: its bytes, and where they came from.
export const correct = ({ image, source }, name, box) =>
  change("correct", form(image, { name, source, ...(box ? { box: box.join(",") } : {}) }));
// Few boxes, so that several frames a second can be answered.
const FEW = 8;
export const find = ({ image }, remember) =>
  send("find", {
    method: "POST",
    body: image,
    headers: JPEG_KIND,
    query: { most: FEW, ...(remember ? { remember } : {}) },
  });
// Camera frames over one socket: things are tracked, and each is named from all of its frames.
export function findStream(remember) {
  const place = new URL(address("find/stream", remember ? { remember } : {}), location.href);
  place.protocol = place.protocol.replace("http", "ws");
  const socket = new WebSocket(place);
  let waiting = null;
  const lost = () => {
    waiting?.reject(new Refusal(0, "CannotReach", "The service ended the stream of frames."));
    waiting = null;
  };
  const opened = new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("close", () => { lost(); reject(new Refusal(0, "CannotReach", "The service refused the stream of frames.")); });
  });
  opened.catch(() => {});
  socket.addEventListener("message", (event) => {
    const said = JSON.parse(event.data);
    if (said.error) waiting?.reject(new Refusal(422, said.error.kind, said.error.message));
    else waiting?.resolve(said);
    waiting = null;
  });
  return {
    async look({ image }) {
      await opened;
      // A closed socket would drop the frame without a word.
      if (socket.readyState !== WebSocket.OPEN) {
        throw new Refusal(0, "CannotReach", "The service ended the stream of frames.");
      }
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        socket.send(image);
      });
    },
    close: () => socket.close(),
  };
}
export const nameFiles = (files) =>
  send("folders", { method: "POST", body: JSON.stringify({ files }), headers: JSON_KIND });
export const rename = (old, wanted) => changeJson("rename", { old, new: wanted });
export const forget = (name, erase) => changeJson("forget", { name, erase });
export const forgetOne = (id) => changeJson("forget", { id });
export const undo = (id) => change("undo", undefined, {}, { id });
export const redo = (id) => change("redo", undefined, {}, { id });
export const undoable = () => send("undoable");
export const description = () => send("openapi.json");
export const names = (containing, limit) =>
  send("names", { query: { ...(containing ? { containing } : {}), limit, latest_first: true } });
export const similarName = (name) => send("similar-name", { query: { name } });
export const memories = () => send("memories");
export const teachings = (name, limit, offset) =>
  send("teachings", { query: { name, limit, offset } });
export const thumbnail = (id) => address(`thumbnails/${id}`);
export const exported = () => address("export");

const KINDS = [
  "taught", "corrected", "forgotten", "erased", "renamed", "undone", "redone",
  "named", "ignored", "dropped", "merged", "progress",
];

// Calls a function for every event; the browser reconnects by itself.
export function listen(onEvent) {
  const source = new EventSource(address("events"));
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => onEvent(kind, JSON.parse(event.data)));
  }
  // While disconnected, events may have been missed.
  let broken = false;
  source.addEventListener("error", () => { broken = true; });
  source.addEventListener("open", () => { if (broken) onEvent("again", {}); });
  return () => source.close();
}
