// One run: status, live curves, league, evaluations, checkpoints, and the buttons that act on it.
import { ask, at, head, make, marked } from "./common.js";
import { Chart } from "./chart.js";
import { CLEAR, grouped } from "./groups.js";
import { evaluated, evaluations } from "./matches.js";
import { bytes, clock, percent, short, since } from "./words.js";

const name = decodeURIComponent(location.pathname.split("/").pop());
const place = `/runs/of/${encodeURIComponent(name)}`;
const OPEN = ["Learning", "League", "Curriculum"];
const charts = new Map(); // title -> {chart, tags, data, epoch}
let run, known = "";

const fact = (label, ...value) => make("div", { class: "fact" }, make("small", { class: "dim" }, label), make("span", {}, ...value));

function facts() {
  const now = run.status;
  const who = now.process;
  const latest = run.latest;
  const found = [
    fact("state", make("span", { class: `state ${now.state.replace(/\W/g, "-")}` }, now.state)),
    fact("game", `${now.game} · ${now.algorithm}`),
    fact("progress", `${short(now.steps)} of ${short(now.total_steps)} steps`, make("progress", { value: now.updates ? now.update / now.updates : 0, max: 1 })),
    fact("update", `${now.update} of ${now.updates}`),
    now.steps_per_second != null && fact("speed", `${short(now.steps_per_second)} steps/s`),
    now.seconds_left != null && fact("left", clock(now.seconds_left)),
    now.evaluation && fact("newest evaluation", evaluated(now), make("small", { class: "dim" }, ` update ${now.evaluation.update}`)),
    now.best && fact("best", `${now.best.best_by} ${short(now.best.score)}`, make("small", { class: "dim" }, ` update ${now.best.update}`)),
    latest["curriculum/stage"] != null && fact("stage", stage()),
    run.seeds > 1 && fact("seeds", String(run.seeds)),
    who && fact("process", `${who.pid} on ${who.host}`, who.processes > 1 ? `, first of ${who.processes}` : ""),
    now.last_figures && fact("last figures", since(Date.parse(now.last_figures) / 1000)),
  ];
  at("facts").replaceChildren(...found.filter(Boolean));
  at("why").replaceChildren(...marked([now.why, ...(run.damaged || [])].filter(Boolean).join(" ")));
  at("stop").hidden = now.state !== "training";
}

/** The stage of a curriculum by its name, where the configuration tells it. */
function stage() {
  const number = run.latest["curriculum/stage"];
  const stages = run.tree?.curriculum?.stages;
  const found = Array.isArray(stages) ? stages[number] : stages && Object.keys(stages)[number];
  return typeof found === "string" ? found : found?.name || String(number);
}

// ---- curves ----

function sections() {
  const signs = run.tags.join();
  if (signs === known) return;
  known = signs;
  const open = new Set([...document.querySelectorAll("details[open]")].map((each) => each.dataset.group));
  const first = !charts.size;
  charts.clear();
  at("curves").replaceChildren(...grouped(run.tags).map(([group, wanted]) => {
    const grid = make("div", { class: "charts" });
    for (const { title, tags, stacked } of wanted) {
      const [tag, ...others] = Object.values(tags);
      const chart = new Chart(title, { stacked, tag: others.length ? "" : tag });
      charts.set(`${group} ${title} ${tag}`, { chart, tags, group });
      grid.append(chart.element);
    }
    const details = make("details", { "data-group": group, toggle: () => details.open && refresh(group) },
      make("summary", {}, group, make("small", { class: "dim" }, ` ${wanted.length}`)), grid);
    details.open = first ? OPEN.includes(group) : open.has(group);
    return details;
  }));
}

/** Fetches new rows for the charts in sight. */
async function refresh(only) {
  const shown = [...charts.values()].filter((each) =>
    (only ? each.group === only : document.querySelector(`details[data-group="${CSS.escape(each.group)}"]`)?.open));
  for (let i = 0; i < shown.length; i += 12) {
    const part = shown.slice(i, i + 12);
    const tags = [...new Set(part.flatMap((each) => Object.values(each.tags)))];
    for (let j = 0; j < tags.length; j += 50) await fetchInto(part, tags.slice(j, j + 50));
    part.forEach(redraw);
  }
}

async function fetchInto(part, tags) {
  const same = part.every((each) => each.data && each.epoch === part[0].epoch && each.last === part[0].last);
  const after = same && part[0].epoch === run.epoch && tags.every((tag) => part.some((each) => each.data[tag])) ? part[0].last : -1;
  const found = await ask(`${place}/curves?after=${after}&tags=${encodeURIComponent(tags.join(","))}`);
  const fresh = found.epoch !== part[0].epoch || after < 0;
  for (const each of part) {
    each.data = fresh ? { ...(each.epoch === found.epoch ? each.data : {}) } : each.data;
    for (const tag of Object.values(each.tags)) if (found.series[tag]) each.data[tag] = fresh ? found.series[tag] : joined(each.data[tag], found.series[tag]);
    each.steps = fresh ? found.steps : each.steps.concat(found.steps);
    each.last = found.update.length ? found.update.at(-1) : fresh ? -1 : each.last;
    each.epoch = found.epoch;
  }
}

function joined(old, more) {
  const both = { mean: old.mean.concat(more.mean) };
  if (old.low && more.low) {
    Object.assign(both, { low: old.low.concat(more.low), high: old.high.concat(more.high), seeds: old.seeds.map((values, i) => values.concat(more.seeds[i])) });
  }
  return both;
}

function redraw({ chart, tags, data, steps }) {
  const last = (tag) => data[tag]?.mean.findLast((value) => value != null) ?? -Infinity;
  const names = Object.keys(tags).filter((each) => data[tags[each]]).sort((a, b) => last(tags[b]) - last(tags[a]));
  const shown = names.slice(0, CLEAR);
  chart.smooth = +at("smooth").value;
  chart.set(steps, shown.map((each, color) => ({
    name: each, color, ...data[tags[each]], ...(shown.length > 1 ? { seeds: undefined, ...(chart.stacked ? { low: undefined } : {}) } : {}),
  })));
  if (names.length > CLEAR) chart.legend.append(make("span", { class: "dim" }, `and ${names.length - CLEAR} more`));
}

// ---- tables ----

function league() {
  const names = Object.keys(run.latest).map((tag) => /^league\/share\/(.+)$/.exec(tag)?.[1]).filter(Boolean);
  at("league").hidden = !names.length;
  const value = (kind, each) => run.latest[`league/${kind}/${each}`];
  names.sort((a, b) => value("share", b) - value("share", a));
  at("league-rows").replaceChildren(...names.filter((each) => value("share", each) > 0 || value("elo", each) != null).map((each) => make("tr", {},
    make("td", {}, each),
    make("td", { class: "bar" }, make("meter", { value: value("share", each) || 0, max: 1 }), percent(value("share", each))),
    make("td", { class: "number" }, short(value("elo", each))),
    make("td", { class: "number" }, value("win_rate", each) != null ? percent(value("win_rate", each)) : "–"),
    make("td", { class: "number" }, short(value("games", each))))));
}

function checkpoints() {
  const table = (checkpoint) => `/?game=${encodeURIComponent(run.status.game)}&player=${encodeURIComponent(`run:${name}@${checkpoint}`)}`;
  at("checkpoints").replaceChildren(...run.checkpoints.toReversed().map((each) => make("tr", {},
    make("td", {}, each.best ? `best (update ${each.update})` : `update ${each.update}`),
    make("td", { class: "number" }, bytes(each.bytes)),
    make("td", { class: "dim" }, since(each.time)),
    make("td", { class: "row" },
      make("a", { href: table(each.best ? "best" : each.update) }, "play it"),
      make("button", { class: "quiet", click: () => evaluate(each.best ? "best" : String(each.update)) }, "evaluate")))));
  at("no-checkpoints").hidden = run.checkpoints.length > 0;
}

function jobs() {
  at("jobs").replaceChildren(...run.jobs.map((job) => make("div", { class: "job" },
    make("div", { class: "row spread" }, make("code", {}, job.command.replace(/ \S*\//, " …/")), make("span", { class: "row" },
      make("span", { class: `state ${job.state}` }, job.state),
      ["waiting", "running"].includes(job.state) && make("button", { class: "quiet", click: () => act(() => ask("/runs/jobs", { stop: job.number })) }, "stop it"))),
    make("pre", {}, job.output))));
}

function events() {
  at("log").replaceChildren(...run.status.events.map((each) => make("li", { class: each.level },
    make("small", { class: "dim" }, `${each.time.replace("T", " ").slice(0, 19)} `), each.message)));
  at("log-of").hidden = !run.status.events.length;
}

// ---- what can be done ----

async function act(doing) {
  try {
    const found = await doing();
    at("said").className = "";
    at("said").textContent = found?.said || "";
  } catch (error) {
    at("said").className = "error";
    at("said").textContent = error.message;
  }
}

const evaluate = (checkpoint) => act(async () => {
  const job = await ask(`${place}/evaluate`, { checkpoint, opponents: at("opponents").value.trim(), deals: at("deals").value.trim() });
  at("jobs").scrollIntoView({ block: "nearest" });
  return { said: `${job.command.replace(/ \S*\//, " …/")}: ${job.state}` };
});

function build() {
  const field = (id, label, attributes) => make("label", {}, `${label} `, make("input", { id, ...attributes }));
  at("main").append(
    make("div", { class: "row spread" }, make("h1", {}, name),
      make("span", { class: "row" }, make("a", { href: `/replays?find=${encodeURIComponent(name)}` }, "recorded games"), make("a", { href: "/runs" }, "all runs"), make("button", { id: "stop", hidden: true, click: () => at("sure").showModal() }, "Stop …"))),
    make("p", { id: "said", role: "status" }), make("p", { id: "why", class: "error" }),
    make("section", { class: "panel facts", id: "facts" }),
    make("div", { class: "row tools" },
      make("label", { class: "row" }, "smoothing ", make("input", { id: "smooth", type: "range", min: 0, max: 0.98, step: 0.02, value: 0,
        input: () => charts.forEach((each) => each.data && redraw(each)) })),
      make("span", { class: "dim" }, "line: mean over seeds; band: its 95 % interval; faint: single seeds; below: environment steps of each seed")),
    make("div", { id: "curves" }),
    make("section", { class: "panel", id: "league", hidden: true }, make("h2", {}, "League now"),
      make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ["opponent", "share", "rating", "it wins", "games"].map((word, i) =>
        make("th", { class: i > 1 && "number" }, word)))), make("tbody", { id: "league-rows" })))),
    make("div", { id: "matches" }),
    make("section", { class: "panel" }, make("h2", {}, "Checkpoints"),
      make("p", { id: "no-checkpoints", class: "dim", hidden: true }, "No checkpoint yet."),
      make("div", { class: "scroll" }, make("table", {}, make("tbody", { id: "checkpoints" }))),
      make("div", { class: "row" }, field("opponents", "against", { placeholder: "as configured", size: 14 }), field("deals", "deals", { inputmode: "numeric", size: 5, placeholder: "all" }),
        make("button", { click: () => evaluate("newest") }, "Evaluate the newest")),
      make("div", { id: "jobs", "aria-live": "polite" })),
    make("section", { class: "panel", id: "log-of" }, make("h2", {}, "Warnings and errors"), make("ul", { id: "log", class: "plain" })),
    make("details", { class: "panel" }, make("summary", {}, "Configuration, resolved"), make("pre", { id: "config", class: "config", tabindex: 0 })),
    make("dialog", { id: "sure" }, make("p", {}, `Stop ${name}? It gets the signal of Ctrl-C, saves a checkpoint after the update in hand and ends; `,
      make("code", {}, "jaxrl resume"), " goes on with it."),
      make("div", { class: "row" }, make("button", { class: "main", click: () => { at("sure").close(); act(() => ask(`${place}/stop`, {})); } }, "Stop it"),
        make("button", { click: () => at("sure").close() }, "Leave it"))));
}

/** Draws parts of the page; a part that cannot be drawn, of a damaged file for instance, hinders no other. */
function drawn(...parts) {
  for (const part of parts) {
    try { part(); } catch (error) { at("said").textContent = `${part.name} cannot be shown: ${error.message}`; }
  }
}

const show = () => drawn(facts, sections, league, jobs, events);

async function details() {
  const found = await ask(place);
  run = { ...run, ...found };
  document.title = `jaxrl: ${name}`;
  show();
  drawn(checkpoints, function evaluated() { at("matches").replaceChildren(...evaluations(run.evaluations, run.exploitability)); });
  at("config").textContent = run.config;
  await refresh();
}

function follow() {
  const stream = new EventSource(`${place}/events`);
  let busy = false;
  stream.onmessage = async (event) => {
    const before = run.status;
    Object.assign(run, JSON.parse(event.data));
    at("main").dataset.read = run.read;
    show();
    if (busy) return; // the next change brings the rest
    busy = true;
    try {
      const ended = before.state !== run.status.state || before.evaluation?.update !== run.status.evaluation?.update || run.jobs.some((job) => job.state === "done");
      await (ended ? details() : refresh());
    } catch (error) {
      at("said").textContent = error.message;
    }
    busy = false;
  };
  stream.onerror = () => { at("main").dataset.live = "no"; };
  stream.onopen = () => { at("main").dataset.live = "yes"; };
}

head("/runs");
build();
details().then(follow).catch((error) => { at("said").className = "error"; at("said").textContent = error.message; });
