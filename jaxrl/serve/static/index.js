// The first page: a card for each game, the form for other tables, and the list of tables.

import { ask, at, head, make, marked, paragraphs, plain } from "./common.js";
import * as me from "./me.js";
import { numbered } from "./words.js";

head("/");
const main = at("main");
const wanted = new URLSearchParams(location.search);
const game = make("select", { id: "game", change: () => chooseGame() });
const options = make("div", { class: "options" });
const seats = make("div", { class: "seats", id: "seats" });
const problem = make("p", { class: "error", role: "alert" });
const beside = make("input", { type: "checkbox", id: "beside" });
const besideRow = make("label", { class: "dim", hidden: true }, beside,
  " the same deal twice, side by side, with the players moved by one seat");
const open = make("button", { class: "main", id: "open", disabled: true, click: () => openTable() }, "Open the table");
const about = make("p", { class: "dim" });
const nameField = make("input", { id: "name", maxlength: 24, value: me.name(), placeholder: "your name",
  change: (event) => me.setName(event.target.value), "aria-label": "your name" });
const rules = make("div", { class: "rules" });
const listing = make("div", {}, "…");

const cards = make("section", { class: "games", "aria-label": "games" }, make("p", { class: "dim" }, "…"));
const own = make("details", { class: "panel", id: "own" }, make("summary", {}, "A table of your choice"),
  make("div", { class: "row" }, make("label", { for: "game" }, "Game"), game, nameField),
  about,
  make("details", {}, make("summary", {}, "Options of the game"), options),
  seats, besideRow, make("div", { class: "row" }, open),
  make("details", {}, make("summary", {}, "How it is played"), rules));

main.append(
  make("h1", {}, "Sit down and play"),
  problem, cards,
  make("div", { class: "home" }, own,
    make("section", { class: "panel", "aria-label": "tables" }, make("h2", {}, "Tables"), listing)));

let games = [];
let offer = null;
let offering = null;  // promise of whether seats could be offered
let asked = 0;  // how often seats were asked for: only the last answer counts

async function start() {
  const found = await ask("/api/games");
  cards.replaceChildren(...found.map(card));
  games = found.filter((each) => each.seats);
  game.replaceChildren(...games.map((each) => make("option", { value: each.id }, each.title)));
  const first = wanted.get("game") || localStorage.getItem("game");
  if (games.some((each) => each.id === first)) game.value = first;
  own.open = wanted.has("game");
  await chooseGame();
}

/** A game as a picture with a button that sits down at once. */
function card(each) {
  const picture = each.picture
    ? make("img", { src: `data:image/svg+xml,${encodeURIComponent(each.picture)}`, alt: "" })
    : make("div", { class: "letter", "aria-hidden": "true", style: { "--hue": hue(each.id) } }, each.title.slice(0, 1));
  const drive = each.matches?.length;
  const people = each.people || drive;
  const others = Math.max(0, each.seats - 1);
  const rungs = make("select", { "aria-label": `your opponent: ${each.title}`, change: () => { score.textContent = me.told(each.id, rungs.value); } },
    (each.ladder || []).map(([spec, words]) => make("option", { value: spec, selected: spec === each.opponent }, words)));
  const score = make("small", { class: "dim" }, me.told(each.id, each.opponent));
  const against = !people ? "agents play" : !others ? "you alone" : ["you against ", others > 1 && !drive ? `${others} × ` : "", rungs];
  const begin = each.seats
    ? make("button", { class: "main", "data-game": each.id, click: (event) => playNow(each, rungs.value, event.target) }, people ? "Play now" : "Watch now")
    : make("a", { class: "button", href: "/replays?find=magic" }, "Recorded games");
  const more = drive ? make("a", { href: "/drive" }, "other matches")
    : make("button", { class: "quiet", click: () => choose(each) }, "players, options");
  return make("article", { class: "game" }, picture,
    make("div", { class: "text" }, make("h2", {}, each.title), make("p", {}, marked(each.about)),
      each.seats ? make("div", { class: "dim against" }, against) : null, score),
    make("div", { class: "row" }, begin, each.seats ? more : null));
}

const hue = (text) => [...text].reduce((sum, letter) => (31 * sum + letter.charCodeAt(0)) % 360, 7);

/** Sits down with players of one kind, by default those of the server's choice. */
async function playNow(each, spec, button) {
  const words = button.textContent;
  button.disabled = true;
  button.textContent = each.matches.length ? "getting ready …" : "dealing …";
  problem.textContent = "";
  const drive = each.matches.length, asked = { game: each.id, ...(drive ? { match: each.matches[0] } : { person: me.person() }) };
  if (spec && spec !== each.opponent) asked.seats = ["person", ...Array(each.seats - 1).fill(spec)];
  try {
    if (drive) location.href = `/drive#${(await ask("/api/drive", asked)).id}`;
    else sitDown(await ask("/api/tables", asked));
  } catch (error) {
    problem.textContent = error.message;
    button.disabled = false;
    button.textContent = words;
  }
}

function sitDown(table) {
  me.keepKeys(table);
  location.href = me.addressOf(table.id, table.keys.find(Boolean));
}

/** Opens the form with this game in it. */
async function choose(each) {
  own.open = true;
  game.value = each.id;
  await chooseGame();
  own.scrollIntoView({ block: "start" });
  game.focus();
}

async function chooseGame() {
  const chosen = games.find((each) => each.id === game.value);
  about.replaceChildren(...marked(chosen.about));
  localStorage.setItem("game", chosen.id);
  options.replaceChildren(...chosen.options.map(optionField));
  await offerSeats();
}

function optionField(option) {
  const change = () => { offering = seatsOffered(); };  // the button stays: a click may be what left the field
  const id = `option-${option.name}`;
  let field;
  if (option.choices.length) {
    field = make("select", { change }, option.choices.map((each) =>
      make("option", { selected: each === option.default }, String(each))));
  } else if (typeof option.default === "boolean") {
    field = make("input", { type: "checkbox", checked: option.default, change });
  } else {
    field = make("input", { type: "number", value: option.default ?? 0, change });
  }
  field.id = id;
  field.dataset.option = option.name;
  return make("label", { for: id, title: plain(option.about) }, make("span", {}, option.name.replaceAll("_", " ")), field,
    make("small", { class: "dim" }, marked(option.about)));
}

function chosenOptions() {
  const chosen = games.find((each) => each.id === game.value);
  const found = {};
  for (const option of chosen.options) {
    const field = at(`option-${option.name}`);
    let value = field.type === "checkbox" ? field.checked : field.type === "number" ? Number(field.value) : field.value;
    if (option.choices.length) value = option.choices.find((each) => String(each) === field.value);
    if (value !== option.default) found[option.name] = value;
  }
  return found;
}

async function offerSeats() {
  open.disabled = true;
  await (offering = seatsOffered());
}

async function seatsOffered() {
  const number = ++asked;
  problem.textContent = "";
  let found;
  try {
    found = await ask("/api/players", { game: game.value, options: chosenOptions(), person: me.person() });
  } catch (error) {
    if (number !== asked) return offering;
    problem.textContent = error.message;
    return false;
  }
  if (number !== asked) return offering;
  offer = found;
  const before = [...seats.querySelectorAll("select")].map((each) => each.value);
  const choices = [...offer.players];
  if (offer.rating != null) choices.unshift(["near", `about my strength (${Math.round(offer.rating)} Elo)`]);
  if (offer.people) choices.unshift(["person", "a person"]);
  const player = wanted.get("player");
  if (player && !choices.some(([spec]) => spec === player)) choices.push([player, player]);
  seats.replaceChildren(...Array.from({ length: offer.seats }, (_, seat) => {
    const select = make("select", { id: `seat-${seat}`, change: showBeside },
      choices.map(([spec, words]) => make("option", { value: spec }, words)));
    const usual = seat === 0 && offer.people ? "person" : player || offer.players[0][0];
    select.value = choices.some(([spec]) => spec === before[seat]) ? before[seat] : usual;
    const side = new Set(offer.sides).size < offer.seats ? `, side ${offer.sides[seat] + 1}` : "";
    return make("label", { for: `seat-${seat}` }, make("span", {}, `Player ${seat + 1}${side}`), select);
  }));
  rules.replaceChildren(...paragraphs(offer.rules || "This game brings no text of its rules."));
  open.disabled = false;
  showBeside();
  return true;
}

const chosenSeats = () => [...seats.querySelectorAll("select")].map((each) => each.value);

function showBeside() {
  const agents = !chosenSeats().includes("person");
  besideRow.hidden = !agents;
  open.textContent = agents ? "Watch" : "Open the table";
}

async function openTable() {
  open.disabled = true;
  if (!await offering) return;
  open.disabled = true;  // again: what was offered meanwhile enabled it
  problem.textContent = "";
  me.setName(nameField.value);
  const specs = chosenSeats();
  try {
    const table = await ask("/api/tables", {
      game: game.value, options: chosenOptions(), seats: specs, person: me.person(),
      beside: beside.checked && !specs.includes("person"),
    });
    sitDown(table);
  } catch (error) {
    problem.textContent = error.message;
    open.disabled = false;
  }
}

async function list() {
  const tables = await ask("/api/tables");
  const rows = tables.map((table) => {
    if (table.bad) return make("div", { class: "entry" }, make("span", { class: "dim" }, table.bad), make("span", { class: "state" }, "cannot be read"));
    const key = (me.keysOf(table.id).keys || []).find(Boolean);
    return make("a", { class: "entry", href: me.addressOf(table.id, key) },
      make("strong", {}, table.title), " ", make("span", { class: "dim" }, numbered(table.names).join(", ")),
      make("span", { class: "state" }, table.over ? "finished" : key ? "your table" : table.people ? "people play" : "agents",
        table.here ? `, ${table.here} here` : ""));
  });
  listing.replaceChildren(...(rows.length ? rows : [make("p", { class: "dim" }, "None yet.")]));
}

start().catch((error) => { problem.textContent = error.message; });
list().catch(() => {});
setInterval(() => { if (!document.hidden) list().catch(() => {}); }, 5000);
