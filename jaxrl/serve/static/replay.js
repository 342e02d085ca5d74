// One recorded game: its view, its story, its timeline, and a link to every moment.
import { ask, at, head, make, wait } from "./common.js";
import { Judge, words as judged } from "./judge.js";
import { Film, Frames, part } from "./stages.js";
import { Timeline } from "./timeline.js";
import { named, numbered, percent } from "./words.js";

const query = new URLSearchParams(location.search);
const file = query.get("file") || "";
const game = +(query.get("game") || 0);
const ASK = 400; // milliseconds between two looks at a game that is being opened
const MOST = 3000; // lines of the story
const DOUBT = 0.2; // least gap in probability to what the policy would rather do

let stage, told, current = -1, linked = 0;
const timeline = new Timeline((place) => show(place));
const judge = new Judge((found, by) => {
  timeline.judge(found && { values: found.values, doubts: found.doubted.map((number) => found.judgements[number]).map((row) => ({ at: row.at, words: judged(row, told.names) })) });
  judge.tell();
  tellCostly(found);
  showJudgement(timeline.place);
  by ? query.set("by", by) : query.delete("by");
  history.replaceState(null, "", `${location.pathname}?${query}${location.hash}`);
});

/** The place that the address names, e.g. #t=12; in seconds where the game has seconds. */
function addressed(seconds) {
  const found = /[#&]t=([\d.]+)/.exec(location.hash);
  return found ? +found[1] / (seconds || 1) : 0;
}

/** Writes the moment into the address, at most a few times a second: browsers ask for that. */
function link(place) {
  clearTimeout(linked);
  linked = setTimeout(() => {
    const time = told.seconds ? (place * told.seconds).toFixed(2).replace(/\.?0+$/, "") : Math.floor(place);
    history.replaceState(null, "", `${location.pathname}${location.search}#t=${time}`);
  }, 250);
}

/** Shows a policy's judgement of the decision that has just been taken. */
function showJudgement(place) {
  at("judgement").replaceChildren(...judge.lines(Math.floor(place)));
}

/** Links to the three decisions of the person's seat that the policy would rather have taken otherwise by the greatest odds. */
function tellCostly(found) {
  const mine = (found?.judgements || []).filter((row) => query.has("seat") && row.seat === +query.get("seat"));
  const worst = mine.filter((row) => row.chance - row.odds >= DOUBT).sort((a, b) => b.chance - b.odds - a.chance + a.odds).slice(0, 3);
  at("costly").replaceChildren(worst.length ? make("h2", {}, "Your costliest decisions") : "", ...worst.map((row) => make("p", {},
    make("a", { href: `#t=${(row.at * (told.seconds || 1)).toFixed(2)}` }, `${row.name}, rather ${row.best}`),
    make("small", { class: "dim" }, ` (${percent(row.odds)} to ${percent(row.chance)}; ${row.worth})`))));
}

function show(place) {
  if (!told) return;
  const now = told.moments.findLastIndex((moment) => moment.at <= place);
  const words = now >= 0 ? told.moments[now].words : "the beginning";
  if (now !== current) {
    at("story").querySelector("[aria-current]")?.removeAttribute("aria-current");
    const line = at("story").querySelector(`[data-number="${now}"]`);
    line?.setAttribute("aria-current", "true");
    const item = line?.closest("li");
    if (item) at("story").scrollTop = item.offsetTop - at("story").clientHeight / 2;
    at("words").textContent = words;
    current = now;
  }
  link(place);
  if (Math.floor(place) !== judge.shown) showJudgement(judge.shown = Math.floor(place));
  stage?.show(place, words, told.frames - 1)?.catch((error) => { at("said").textContent = error.message; });
}

/** Puts the players' names in the place of seats in all texts; "side 0: hard" is the name "hard", "seat 0" none. */
function name(head) {
  head.names = numbered(head.seats.map((each) => each.replace(/^(seat|side) \d+(: )?/, "")));
  for (const moment of head.moments) moment.words = named(moment.words, head.names);
  return head;
}

function tell() {
  document.title = `jaxrl: ${told.title}`;
  at("title").textContent = told.title;
  at("note").textContent = told.note;
  at("note").hidden = !told.note;
  at("seats").replaceChildren(...told.seats.map((call, seat) =>
    make("span", { class: `seat seat${seat % 8}` }, told.names[seat] || call)));
  at("story").replaceChildren(...told.moments.slice(0, MOST).map((moment, number) =>
    make("li", {}, make("button", { class: `quiet ${moment.mark ? "marked" : ""}`, "data-number": number, "data-at": moment.at },
      make("small", { class: "dim" }, told.seconds ? `${(moment.at * told.seconds).toFixed(1)} s` : moment.at),
      make("span", { class: moment.seat >= 0 ? `by seat${moment.seat % 8}` : "" }, moment.words)))));
  current = -1;
}

async function staged(id) {
  if (told.view === "space") {
    const { Space } = await import("./space.js");
    return new Space(told);
  }
  return told.view === "film" ? new Film(id, told.seconds) : new Frames(id, told.view, told.names);
}

async function load(id) {
  const first = !told;
  const found = await ask(`/replays/open/${id}/head`);
  if (found.error) throw new Error(found.error);
  told = name(found);
  tell();
  if (first) {
    at("theatre").hidden = false;
    const place = addressed(told.seconds);
    stage = await staged(id);
    at("stage").replaceChildren(stage.element);
    if (stage.controls) at("camera").replaceChildren(stage.controls);
    timeline.place = place;
  } else stage.load?.(told);
  timeline.load(told);
}

const gamesOf = (id) => part(id, "games", "json").then(JSON.parse, () => []);

const other = (number) => `/replays/view?file=${encodeURIComponent(file)}&game=${number}`;

function choose(names) {
  if (names.length < 2) return;
  const select = make("select", { "aria-label": "which game", change: () => { location.href = other(select.value); } },
    names.map((name, number) => make("option", { value: number, selected: number === game }, name)));
  at("games").replaceChildren(
    make("a", { href: other(Math.max(0, game - 1)), "aria-label": "the game before" }, "‹"), select,
    make("a", { href: other(Math.min(names.length - 1, game + 1)), "aria-label": "the next game" }, "›"));
}

async function open() {
  let seen = 0;
  for (;;) {
    const found = await ask(`/replays/open?file=${encodeURIComponent(file)}&game=${game}`);
    if (found.error) throw new Error(found.error);
    if (found.head > seen) {
      seen = found.head;
      await load(found.id);
      at("said").textContent = "";
      if (told.done) return Promise.all([gamesOf(found.id).then(choose), judge.load(found.id, query.get("by"), told.names, query.has("seat"))]);
    } else if (!seen) {
      at("said").textContent = found.state === "waiting" ? "waiting for a free place …" : "opening: the game is played again …";
    }
    if (found.state === "failed" && seen) throw new Error(told.error || "it could not be opened");
    await wait(ASK);
  }
}

async function share() {
  const text = location.href;
  try {
    await navigator.clipboard.writeText(text);
    at("said").textContent = "the link to this moment is copied";
  } catch {
    prompt("the link to this moment", text);
  }
}

function whole() {
  if (document.fullscreenElement) document.exitFullscreen();
  else at("theatre").requestFullscreen?.();
}

head("/replays");
at("main").append(
  make("div", { class: "row spread headline" },
    make("h1", { id: "title" }, file.split("/").pop()),
    make("span", { class: "row", id: "games" })),
  make("p", { id: "said", role: "status", class: "dim" }),
  make("p", { id: "note", class: "note", hidden: true }),
  make("div", { class: "theatre", id: "theatre", hidden: true },
    make("div", { class: "show" },
      make("div", { id: "stage" }),
      make("p", { id: "words", class: "words", "aria-live": "polite" }),
      make("p", { id: "judgement", class: "judgements" }),
      timeline.element),
    make("aside", { class: "panel side" },
      make("div", { id: "seats", class: "row seats" }),
      judge.element,
      make("div", { id: "costly" }),
      make("div", { id: "camera" }),
      make("ol", { id: "story", class: "story", click: (event) => {
        const line = event.target.closest("button");
        if (line) { timeline.play(false); timeline.seek(+line.dataset.at); }
      } }),
      make("div", { class: "row" },
        make("button", { click: share }, "Link to this moment"),
        make("button", { click: whole, class: "wide-only" }, "Full screen (F)")),
      make("p", { class: "dim keys wide-only" }, make("kbd", {}, "space"), " play ", make("kbd", {}, "← →"), " step ",
        make("kbd", {}, "↑ ↓"), " signs"))));
addEventListener("keydown", (event) => {
  const busy = event.target.closest?.("input:not([type=range]), select") || event.ctrlKey || event.metaKey || event.altKey;
  if (!busy && event.key === "f") whole();
});
addEventListener("hashchange", () => told && timeline.seek(addressed(told.seconds)));
open().catch((error) => { at("said").className = "error"; at("said").textContent = error.message; });
