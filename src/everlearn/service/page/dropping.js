// Pictures and folders that are dropped or chosen. The service names the files of folders, by the
// same rule as the command line. The outcome of each file is shown afterwards.

import * as outcomes from "./outcomes.js";
import * as service from "./service.js";
import { $, choiceIn, element, pictures, progress, notify, reportErrors, whileWorking } from "./shared.js";
import { confirmedName } from "./spelling.js";

// Maximum number of files per request for names.
const MOST = 20000;
const LINES = 100;
// The first bytes of a file, which are sent if its name does not identify it as an image.
const START = 64;
const IMAGE_SUFFIX = /\.(jpe?g|png|webp|gif|bmp|avif|heic|heif)$/i;

async function collect(entry, found) {
  const path = entry.fullPath.replace(/^\//, "");
  if (found.length >= MOST) {
    found.more = true;
    return;
  }
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => { entry.file(resolve, reject); });
    found.push({ file, path });
    return;
  }
  // A hidden folder is not read; it is listed, so that it is not skipped silently.
  if (entry.name.startsWith(".")) {
    found.push({ file: null, path });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const part = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (!part.length) return;
    for (const inner of part) await collect(inner, found);
  }
}

async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = [];
  for (const entry of entries) await collect(entry, found);
  return found;
}

function pickedFiles(files) {
  const found = [...files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
  const first = found.slice(0, MOST);
  first.more = found.length > MOST;
  return first;
}

async function startOf({ file, path }) {
  if (!file || IMAGE_SUFFIX.test(path)) return "";
  const bytes = new Uint8Array(await file.slice(0, START).arrayBuffer());
  return btoa(String.fromCharCode(...bytes));
}

// Each file with the name it would be taught under, or the reason why it has none.
async function withNames(found) {
  const files = [];
  for (const one of found) files.push({ path: one.path, start: await startOf(one) });
  const names = await service.nameFiles(files);
  return found.map((one, place) => ({ ...one, ...names[place] }));
}

// What is dropped while earlier files are being taught, or asked about in a dialog, waits for them:
// each drop is one operation, and an undo takes back exactly one.
let last = Promise.resolve();
let waiting = 0;
function inTurn(action) {
  if (waiting) notify("These files follow after the ones before them.");
  waiting += 1;
  last = last.then(action).finally(() => { waiting -= 1; });
  return last;
}

async function teachOrAsk(found, settings) {
  const files = await reportErrors(() => withNames(found));
  if (!files) return;
  if (found.more) notify(`Only the first ${MOST} files are taken; drop the others afterwards.`, 10);
  if (files.some(({ path }) => path.includes("/"))) await confirmFolders(files);
  else await confirmPictures(files, settings);
}

async function confirmPictures(files, { ask, name: typed }) {
  const images = files.filter(({ image }) => image);
  const others = files.filter(({ image }) => !image);
  if (!images.length) {
    outcomes.show([], others);
    return;
  }
  $("drop-name").value = typed;
  const choice = await choiceIn($("drop"));
  const wanted = $("drop-name").value.trim();
  if (choice === "ask") await reportErrors(() => ask(images[0].file));
  const name = choice === "teach" && wanted ? await reportErrors(() => confirmedName(wanted)) : null;
  if (name) await teach(images.map((one) => ({ ...one, name })), others);
  if (choice === "teach" && !wanted) notify("Give the pictures a name to teach them.");
}

const counted = (values) => {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts];
};

const folderOf = (path) => path.split("/").slice(0, -1).join("/");

// Shows the names of the folders' files and asks before anything is taught.
async function confirmFolders(files) {
  const taught = files.filter(({ name }) => name !== null);
  const others = files.filter(({ name }) => name === null);
  if (!taught.length) {
    outcomes.show([], others);
    return;
  }
  const names = counted(taught.map(({ name }) => name));
  $("folders-text").textContent =
    `${pictures(taught.length)} under ${names.length === 1 ? "1 name" : `${names.length} names`}; ` +
    "each picture is named after the folder it is in.";
  const lines = names.slice(0, LINES).map(([name, count]) => {
    const from = counted(taught.filter((one) => one.name === name).map(({ path }) => folderOf(path)));
    const where = from.slice(0, 3).map(([folder]) => folder).join(", ") + (from.length > 3 ? ", …" : "");
    const { similar } = taught.find((one) => one.name === name);
    const doubt = similar ? `; ${name} is new, did you mean ${similar}?` : "";
    return element("li", { textContent: `${name}: ${pictures(count)} from ${where}${doubt}` });
  });
  if (names.length > LINES) lines.push(element("li", { textContent: `and ${names.length - LINES} more` }));
  for (const [reason, count] of counted(others.map((one) => one.reason))) {
    lines.push(element("li", { className: "faint", textContent: `left out, ${count}: ${reason}` }));
  }
  $("folders-list").replaceChildren(...lines);
  if ((await choiceIn($("folders"))) === "teach") await teach(taught, others);
}

let stopped = false;
let teaching = false;
let changed = () => {};

// Whether dropped files are being taught.
export const isTeaching = () => teaching;

async function teach(files, others) {
  teaching = true;
  changed();
  await whileWorking(() => teachAll(files, others));
  teaching = false;
  changed();
}

// All files are one operation, undone together.
async function teachAll(files, others) {
  const group = service.newKey();
  const found = [];
  stopped = false;
  let ended = null;
  for (const [place, { file, path, name }] of files.entries()) {
    if (stopped) ended = "not sent: it was stopped";
    if (ended) {
      found.push({ path, name, kind: "unsent", reason: ended });
      continue;
    }
    progress(`Teaching ${name}: ${place + 1} of ${files.length}`, place, files.length);
    try {
      const done = await service.teach({ image: file, source: path }, name, group);
      found.push({ path, name, kind: done.new ? "taught" : "known" });
    } catch (error) {
      found.push({ path, name, kind: "refused", reason: error.message });
      if (error.status === 0 || error.status === 401) ended = `not sent: ${error.message}`;
    }
  }
  progress(null);
  outcomes.show(found, others);
}

// ``settings`` returns a function that asks about a picture, and the name typed so far;
// ``onTeaching`` is called when files begin or end to be taught.
export function connect(view, settings, onTeaching) {
  outcomes.connect();
  changed = onTeaching;
  $("work-stop").addEventListener("click", () => { stopped = true; });
  for (const id of ["files", "folder"]) {
    $(id).addEventListener("change", async (event) => {
      const found = pickedFiles(event.target.files);
      event.target.value = "";
      await inTurn(() => teachOrAsk(found, settings()));
    });
  }
  for (const kind of ["dragover", "dragenter"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      view.classList.add("over-it");
    });
  }
  document.addEventListener("dragleave", () => view.classList.remove("over-it"));
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    view.classList.remove("over-it");
    const found = await reportErrors(() => droppedFiles(event.dataTransfer));
    if (found?.length) await inTurn(() => teachOrAsk(found, settings()));
  });
}
