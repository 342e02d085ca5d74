// Several runs side by side: their curves in one chart each, what differs in their configurations, and a verdict.
import { ask, at, head, make, marked, wait } from "./common.js";
import { Chart } from "./chart.js";
import { grouped, titleOf } from "./groups.js";
import { tint } from "./matches.js";
import { percent, short } from "./words.js";

const names = (new URLSearchParams(location.search).get("runs") || "").split(",").filter(Boolean).slice(0, 8);
const FIRST = 3; // groups that are open
let runs = [];

/** The leaves of a tree by dotted key. */
function flat(tree, prefix = "") {
  return Object.entries(tree || {}).reduce((found, [key, value]) => ({ ...found,
    ...(value && typeof value === "object" && !Array.isArray(value) ? flat(value, `${prefix}${key}.`) : { [`${prefix}${key}`]: JSON.stringify(value) }) }), {});
}

function differences() {
  const trees = runs.map((run) => flat(run.tree));
  const keys = [...new Set(trees.flatMap(Object.keys))].filter((key) => key !== "run.name" && new Set(trees.map((tree) => tree[key])).size > 1);
  return make("section", { class: "panel" }, make("h2", {}, "What differs in their configurations"),
    keys.length ? make("div", { class: "scroll" }, make("table", {}, header("key"), make("tbody", {}, keys.map((key) => make("tr", {}, make("td", {}, make("code", {}, key)),
      trees.map((tree) => make("td", {}, tree[key] ?? "–"))))))) : make("p", { class: "dim" }, "Nothing."));
}

const header = (word) => make("thead", {}, make("tr", {}, make("th", {}, word), runs.map((run, color) => make("th", {}, make("span", { class: `seat seat${color % 8}` }, run.name)))));

function standings() {
  const newest = runs.map((run) => run.evaluations.at(-1));
  const opponents = [...new Set(newest.flatMap((record) => (record?.rows || []).map((row) => row.opponent)))];
  const cell = (record, opponent) => {
    const rows = (record?.rows || []).filter((row) => row.opponent === opponent && row.outcomes);
    if (!rows.length) return make("td", { class: "dim" }, "–");
    const rate = rows.reduce((sum, row) => sum + row.outcomes.win_rate, 0) / rows.length;
    const [low, high] = rows.length === 1 ? rows[0].outcomes.win_rate_95 : [Math.min(...rows.map((row) => row.outcomes.win_rate)), Math.max(...rows.map((row) => row.outcomes.win_rate))];
    return make("td", { class: "win", style: tint(rate, record.fair) }, make("b", {}, percent(rate)),
      make("small", {}, `${percent(low)} – ${percent(high)}${rows.length > 1 ? " (seeds)" : ""}`));
  };
  const line = (word, told) => make("tr", {}, make("th", { scope: "row" }, word), runs.map((run) => make("td", {}, told(run))));
  return make("section", { class: "panel" }, make("h2", {}, "Standings"), make("div", { class: "scroll" }, make("table", { class: "matrix" }, header(""), make("tbody", {},
    line("state", (run) => run.status.state), line("steps", (run) => `${short(run.status.steps)} of ${short(run.status.total_steps)}`),
    line("speed", (run) => (run.status.steps_per_second ? `${short(run.status.steps_per_second)} steps/s` : "–")),
    opponents.map((opponent) => make("tr", {}, make("th", { scope: "row" }, `wins against ${opponent}`), newest.map((record) => cell(record, opponent))))))));
}

function curves() {
  const tags = [...new Set(runs.flatMap((run) => run.tags))];
  return grouped(tags).map(([group, wanted], number) => {
    const single = wanted.flatMap(({ tags: own }) => Object.values(own)).slice(0, 48);
    const grid = make("div", { class: "charts" });
    const details = make("details", { toggle: () => details.open && !grid.children.length && fill(grid, single) },
      make("summary", {}, group, make("small", { class: "dim" }, ` ${single.length}`)), grid);
    details.open = number < FIRST && ["Learning", "Evaluations while training"].includes(group);
    return details;
  });
}

async function fill(grid, tags) {
  const made = tags.map((tag) => [tag, new Chart(titleOf(tag), { tag })]);
  grid.append(...made.map(([, chart]) => chart.element));
  const found = await Promise.all(runs.map((run) => ask(`/runs/of/${encodeURIComponent(run.name)}/curves?tags=${encodeURIComponent(tags.join(","))}`)));
  for (const [tag, chart] of made) {
    const series = found.map((each, color) => ({ name: runs[color].name, color, x: each.steps, ...each.series[tag], seeds: undefined }));
    const known = series.filter((each) => each.mean);
    const longest = known.reduce((best, each) => (each.x.length > best.length ? each.x : best), []);
    chart.set(longest, known);
  }
}

async function verdict() {
  const [before, after] = [at("before").value, at("after").value];
  at("verdict").textContent = "comparing …";
  try {
    let job = await ask("/runs/verdict", { before, after });
    while (["waiting", "running"].includes(job.state)) {
      await wait(700);
      job = (await ask(`/runs/jobs?about=${encodeURIComponent(job.about)}`)).find((each) => each.number === job.number);
    }
    at("verdict").textContent = job.output;
  } catch (error) {
    at("verdict").textContent = error.message;
  }
}

async function open() {
  if (names.length < 2) throw new Error("name two runs or more: tick them in the list of runs.");
  runs = await Promise.all(names.map((name) => ask(`/runs/of/${encodeURIComponent(name)}`)));
  const choice = (id, chosen) => make("select", { id, "aria-label": id }, runs.map((run, i) => make("option", { value: run.name, selected: i === chosen }, run.name)));
  at("main").append(standings(), ...curves(), differences(),
    make("section", { class: "panel" }, make("h2", {}, "Quality gate"),
      make("div", { class: "row" }, "before ", choice("before", 0), "after ", choice("after", 1), make("button", { click: verdict }, "Compare")),
      make("pre", { id: "verdict", class: "config", "aria-live": "polite" }, marked("as `jaxrl compare BEFORE AFTER` says it"))));
}

head("/runs");
at("main").append(make("div", { class: "row spread" }, make("h1", {}, names.join(" – ")), make("a", { href: "/runs" }, "all runs")), make("p", { id: "said", class: "error", role: "status" }));
open().catch((error) => { at("said").textContent = error.message; });
