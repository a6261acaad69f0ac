// Pictures and folders that are dropped or chosen. In a folder, the name of the folder is the name.

import { sourceOf } from "./camera.js";
import * as service from "./service.js";
import { $, chosen, pictures, progress, say, trying, working } from "./shared.js";

const MOST = 20000;

async function insideOf(entry, folder, found) {
  if (found.length >= MOST) return;
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => { entry.file(resolve, reject); });
    found.push({ file, folder });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const part = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (!part.length) return;
    for (const inner of part) await insideOf(inner, entry.name, found);
  }
}

async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = [];
  for (const entry of entries) await insideOf(entry, "", found);
  return found;
}

const picked = (files) =>
  [...files].map((file) => ({ file, folder: file.webkitRelativePath.split("/").at(-2) ?? "" }));

async function take(found, { ask, name }) {
  const shown = found.filter(({ file }) => file.type.startsWith("image/"));
  if (!shown.length) {
    say("Those are no pictures.");
    return;
  }
  if (shown.every(({ folder }) => folder)) {
    await takeFolders(shown);
    return;
  }
  $("drop-name").value = name;
  const choice = await chosen($("drop"));
  const wanted = $("drop-name").value.trim();
  if (choice === "ask") await trying(() => ask(shown[0].file));
  if (choice === "teach" && wanted) await teach(shown.map(({ file }) => ({ file, name: wanted })));
  if (choice === "teach" && !wanted) say("Give the pictures a name to teach them.");
}

async function takeFolders(shown) {
  const names = [...new Set(shown.map(({ folder }) => folder))];
  const some = names.slice(0, 8).join(", ") + (names.length > 8 ? ", …" : "");
  $("folders-text").textContent =
    `${pictures(shown.length)} in ${names.length === 1 ? "1 folder" : `${names.length} folders`}: ${some}`;
  if ((await chosen($("folders"))) !== "teach") return;
  await teach(shown.map(({ file, folder }) => ({ file, name: folder })));
}

let stopped = false;

const teach = (lessons) => working(() => teachAll(lessons));

// All of it is one operation, which one Undo takes back.
async function teachAll(lessons) {
  const group = service.newKey();
  let taught = 0;
  const refused = [];
  stopped = false;
  for (const [place, { file, name }] of lessons.entries()) {
    if (stopped) break;
    progress(`Teaching ${name}: ${place + 1} of ${lessons.length}`, place, lessons.length);
    try {
      const done = await service.teach({ image: file, source: sourceOf(file) }, name, group);
      taught += done.new ? 1 : 0;
    } catch (error) {
      refused.push(`${file.name}: ${error.message}`);
      if (error.status === 0 || error.status === 401) break;
    }
  }
  progress(null);
  const names = new Set(lessons.map(({ name }) => name));
  const what = names.size === 1 ? [...names][0] : `${names.size} names`;
  const learned = `Learned ${what} from ${taught} of ${pictures(lessons.length)}.`;
  say([learned, ...refused.slice(0, 1)].join(" "), refused.length ? 10 : 4);
}

// ``settings`` says what the page would do: ask about a picture, and the name typed by now.
export function connect(view, settings) {
  $("work-stop").addEventListener("click", () => { stopped = true; });
  for (const id of ["files", "folder"]) {
    $(id).addEventListener("change", async (event) => {
      await take(picked(event.target.files), settings());
      event.target.value = "";
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
    const found = await dropped(event.dataTransfer);
    if (found.length) await take(found, settings());
  });
}
