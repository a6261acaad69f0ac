// The outcome of every dropped file: taught, known already, refused, left out or not sent.

import { $, element, notify } from "./shared.js";

// Number of lines shown per outcome; the saved list has all.
const LINES = 1000;
const KINDS = [
  ["refused", "Refused"],
  ["unsent", "Not sent"],
  ["left out", "Left out"],
  ["known", "Known already"],
  ["taught", "Taught"],
];

let shown = [];

const ofKind = (kind) => shown.filter((one) => one.kind === kind);
const files = (count) => (count === 1 ? "1 file" : `${count} files`);

function inWords() {
  const taught = ofKind("taught");
  const names = new Set(taught.map(({ name }) => name));
  const what = names.size === 1 ? [...names][0] : `${names.size} names`;
  const learned = taught.length ? `Learned ${what} from ${taught.length} of ${files(shown.length)}` : `Learned nothing new from ${files(shown.length)}`;
  const rest = KINDS.slice(0, -1)
    .map(([kind, title]) => [ofKind(kind).length, title.toLowerCase()])
    .filter(([count]) => count)
    .map(([count, title]) => `${count} ${title}`);
  return `${[learned, ...rest].join("; ")}.`;
}

function lineOf({ path, name, reason }) {
  const words = [name && `as ${name}`, reason].filter(Boolean).join(": ");
  return element("li", {}, element("code", { textContent: path }), ` ${words}`);
}

// Lines are created when the part is opened: there may be thousands.
function part([kind, title]) {
  const own = ofKind(kind);
  if (!own.length) return null;
  const list = element("ul", {});
  const made = element("details", {}, element("summary", { textContent: `${title}: ${own.length}` }), list);
  made.addEventListener("toggle", () => {
    if (!made.open || list.children.length) return;
    const lines = own.slice(0, LINES).map(lineOf);
    const more = own.length - lines.length;
    if (more) lines.push(element("li", { textContent: `and ${more} more, in the saved list` }));
    list.replaceChildren(...lines);
  });
  made.open = kind === "refused" || kind === "unsent" || kind === "left out";
  return made;
}

export function show(taught, others) {
  const left = others.map(({ path, reason }) => ({ path, kind: "left out", reason }));
  shown = [...taught, ...left];
  $("outcomes-text").textContent = inWords();
  $("outcomes-parts").replaceChildren(...KINDS.map(part).filter(Boolean));
  $("outcomes").hidden = false;
  notify(inWords(), 6);
}

const cell = (text) => `"${String(text ?? "").replace(/^(?=[=+\-@])/, "'").replaceAll('"', '""')}"`;

function save() {
  const rows = shown.map(({ path, kind, name, reason }) => [path, kind, name, reason].map(cell).join(","));
  const file = new Blob([["file,outcome,name,reason", ...rows, ""].join("\r\n")], { type: "text/csv" });
  const link = element("a", { href: URL.createObjectURL(file), download: "everlearn-files.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function connect() {
  $("outcomes-save").addEventListener("click", save);
  $("outcomes-close").addEventListener("click", () => { $("outcomes").hidden = true; });
}
