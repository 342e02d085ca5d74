// The list of all runs, live, with a choice of some to compare.
import { at, head, make, marked } from "./common.js";
import { evaluated } from "./matches.js";
import { clock, short, since } from "./words.js";

const chosen = new Set();
let all = [];

function row(run) {
  const share = run.updates ? Math.min(1, run.update / run.updates) : 0;
  const left = run.seconds_left != null ? `${clock(run.seconds_left)} left` : since(run.written);
  const box = make("input", { type: "checkbox", "aria-label": `compare ${run.name}`, change: () => {
    if (box.checked) chosen.add(run.name);
    else chosen.delete(run.name);
    pick();
  } });
  box.checked = chosen.has(run.name);
  return make("li", { class: "run" }, box,
    make("a", { href: `/runs/view/${encodeURIComponent(run.name)}`, class: "about" },
      make("span", { class: "name" }, run.name, make("small", { class: "dim" }, `${run.game} · ${run.algorithm}`)),
      make("span", { class: `state ${run.state.replace(/\W/g, "-")}` }, run.state),
      make("span", { class: "progress" },
        make("progress", { value: share, max: 1, "aria-label": "progress" }),
        make("small", { class: "dim" }, `${short(run.steps)} of ${short(run.total_steps)} steps`)),
      make("span", { class: "dim number" }, run.steps_per_second ? `${short(run.steps_per_second)} steps/s` : ""),
      make("span", { class: "number" }, evaluated(run)),
      make("span", { class: "dim number" }, left)));
}

function pick() {
  const names = [...chosen];
  at("compare").hidden = !names.length;
  at("compare").textContent = names.length < 2 ? "tick another run to compare them" : `Compare ${names.length} runs`;
  if (names.length < 2) at("compare").removeAttribute("href");
  else at("compare").href = `/runs/compare?runs=${names.map(encodeURIComponent).join(",")}`;
}

function show() {
  const wanted = at("filter").value.toLowerCase().split(/\s+/);
  const found = all.filter((run) => wanted.every((word) => `${run.name} ${run.game} ${run.algorithm} ${run.state}`.toLowerCase().includes(word)));
  at("runs").replaceChildren(...found.map(row));
  at("count").textContent = `${found.length} of ${all.length}`;
  at("none").hidden = all.length > 0;
}

head("/runs");
at("main").append(
  make("div", { class: "row spread" }, make("h1", {}, "Runs"), make("a", { id: "compare", class: "button", hidden: true })),
  make("p", { id: "said", class: "error", role: "status" }),
  make("section", { class: "panel" },
    make("div", { class: "row spread" },
      make("input", { id: "filter", type: "search", placeholder: "find, e.g. training skull", "aria-label": "find", input: show }),
      make("span", { id: "count", class: "dim" })),
    make("p", { id: "none", class: "dim", hidden: true }, marked("There are no runs here yet: begin one with `jaxrl train`, " +
      "or name another folder with `jaxrl serve --runs FOLDER`.")),
    make("ul", { id: "runs", class: "files" })));
const stream = new EventSource("/runs/events");
stream.onmessage = (event) => { all = JSON.parse(event.data); at("said").textContent = ""; show(); };
stream.onerror = () => { at("said").textContent = "the server does not answer; trying again …"; };
