// The list of recorded games, and a place to drop files.
import { ask, head, make, marked, at } from "./common.js";
import * as me from "./me.js";
import { bytes, since, verdict } from "./words.js";

const LARGEST = 2 ** 24; // bytes of a file that the server takes
let all = { files: [], left_off: false };
const seen = new Map(); // what the server has said of replays

const viewOf = (file) => `/replays/view?file=${encodeURIComponent(file)}`;

async function bring(files) {
  for (const file of files) {
    if (file.size > LARGEST) {
      at("said").textContent = `${file.name} has more than ${bytes(LARGEST)}: put it into a folder of the server`;
      continue;
    }
    at("said").textContent = `sending ${file.name} …`;
    try {
      const answer = await fetch(`/replays/bring?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
      const found = await answer.json().catch(() => ({ error: "it is too long" }));
      if (!answer.ok) throw new Error(found.error);
      location.href = viewOf(found.file);
      return;
    } catch (error) {
      at("said").textContent = error.message;
    }
  }
}

/** The parts of a recording's name: the run or folder that it belongs to, and what it is there. */
function parted({ file, name, kind }) {
  const [own, place = ""] = name.split(/\/?replays\//).slice(-2).reverse(), parts = own.split("/");
  const what = parts.pop().replace(/\.replay$/, "").replaceAll("_", " "), at = parts.join(" / ");
  const table = place.endsWith(".tables"), group = table ? "Your tables" : place || at || (file.startsWith("brought/") ? "Opened from this computer" : "Files");
  const when = !place || table ? "" : /^\d+$/.test(at) ? `update ${+at}` : `${at} evaluation`;
  return { group, what: table ? "" : [what, when].filter(Boolean).join(", "), kind: kind === "a recorded game" ? "" : `${kind} · ` };
}

/** Says in a row who has won, beside the last position. */
function tell(row, found) {
  if (!found.won) return;
  const names = found.players.map((name) => (row.dataset.file.includes(".tables/") && ["Person", me.name()].includes(name) ? "You" : name));
  row.querySelector("b").textContent = verdict(found, names, true);
  row.querySelector("small").prepend(`${[found.game.split(":").pop().replaceAll("_", " "), row.dataset.what].filter(Boolean).join(" · ")} · `);
  if (found.board) row.querySelector("i").append(make("img", { src: `data:image/svg+xml,${encodeURIComponent(found.board)}`, alt: "" }));
}

/** Looks at the replays of rows that come into sight, once. */
const sight = new IntersectionObserver(async (entries) => {
  const rows = entries.filter((each) => each.isIntersecting).map((each) => each.target);
  rows.forEach((row) => sight.unobserve(row));
  while (rows.length) {
    const some = rows.splice(0, 50), fresh = some.filter((row) => !seen.has(row.dataset.file));
    const found = fresh.length ? await ask("/replays/glances", { files: fresh.map((row) => row.dataset.file) }).catch(() => []) : [];
    found.forEach((each, i) => seen.set(fresh[i].dataset.file, each));
    some.forEach((row) => tell(row, seen.get(row.dataset.file) || {}));
  }
});

function rows() {
  const wanted = at("filter").value.toLowerCase().split(/\s+/);
  const found = all.files.filter((each) => wanted.every((word) => `${each.name} ${each.kind}`.toLowerCase().includes(word)));
  const groups = new Map(); // by the newest of each
  for (const each of found) {
    const { group, what, kind } = parted(each);
    const row = make("a", { href: viewOf(each.file), class: "file", "data-file": each.file, "data-what": what }, make("i"),
      make("span", { class: "name" }, make("b", {}, what || "a game"), make("small", { class: "dim" }, kind, since(each.time))));
    groups.set(group, [...(groups.get(group) || []), make("li", {}, row)]);
    if (each.file.endsWith(".replay")) sight.observe(row);
  }
  at("files").replaceChildren(...[...groups].map(([name, list]) =>
    make("section", {}, make("h2", {}, name), make("ul", { class: "files" }, list))));
  at("count").textContent = `${found.length} of ${all.files.length}${all.left_off ? " (and more, which are not listed)" : ""}`;
}

async function list() {
  all = await ask("/replays/list");
  at("none").hidden = all.files.length > 0;
  rows();
}

head("/replays");
const picker = make("input", { type: "file", hidden: true, change: () => bring(picker.files) });
const drop = make("div", { class: "drop", id: "drop" },
  make("button", { class: "main", click: () => picker.click() }, "Open a file …"),
  make("span", { class: "dim wide-only" }, "or drop one here: files are read, never run"), picker);
at("main").append(
  make("div", { class: "row spread" }, make("h1", {}, "Replays"), drop),
  make("p", { id: "said", class: "error", role: "status" }),
  make("section", { class: "panel" },
    make("div", { class: "row spread" },
      make("input", { id: "filter", type: "search", placeholder: "find, e.g. highest skull", "aria-label": "find", input: rows,
        value: new URLSearchParams(location.search).get("find") }),
      make("span", { id: "count", class: "dim" })),
    make("p", { id: "none", class: "dim", hidden: true }, marked("There are no recorded games yet: evaluations in training " +
      "keep some, and `jaxrl serve --replays FOLDER` shows those of other folders.")),
    make("div", { id: "files" })));
for (const name of ["dragover", "dragleave", "drop"]) {
  addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", name === "dragover");
    if (name === "drop") bring(event.dataTransfer.files);
  });
}
addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target.tagName !== "INPUT") { event.preventDefault(); at("filter").focus(); }
});
list().catch((error) => { at("said").textContent = error.message; });
