// The list of recorded games, and a place to drop files.
import { ask, head, make, marked, at } from "./common.js";
import { bytes, since } from "./words.js";

const SHOWN = 200; // rows at first
const LARGEST = 2 ** 24; // bytes of a file that the server takes
let all = { files: [], left_off: false };
let more = SHOWN;

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

function rows() {
  const wanted = at("filter").value.toLowerCase().split(/\s+/);
  const found = all.files.filter((each) => wanted.every((word) => `${each.name} ${each.kind}`.toLowerCase().includes(word)));
  const list = found.slice(0, more).map((each) => {
    const parts = each.name.split("/");
    return make("li", {}, make("a", { href: viewOf(each.file), class: "file" },
      make("span", { class: "name" }, parts.pop().replace(/\.replay$/, "").replaceAll("_", " "), make("small", { class: "dim" }, parts.join(" / "))),
      make("span", { class: "kind" }, each.kind),
      make("span", { class: "dim" }, bytes(each.bytes)),
      make("span", { class: "dim" }, since(each.time))));
  });
  at("files").replaceChildren(...list);
  at("count").textContent = `${found.length} of ${all.files.length}${all.left_off ? " (and more, which are not listed)" : ""}`;
  at("more").hidden = found.length <= more;
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
    make("ul", { id: "files", class: "files" }),
    make("button", { id: "more", hidden: true, click: () => { more += 1000; rows(); } }, "show more")));
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
