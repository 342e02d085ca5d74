// The table: draws what the person may see, asks, and lets the network answer from its own view of the game.

import { features } from "./features.js";
import { greedy, probabilities, readNetwork } from "./network.js";
import { NAMES, count, deal, decode, isOver, legalActions, playTurn, pointsOf, seatOf, species, step, strengthOf, toMove, view } from "./rules.js";

const YOU = 0, POLICY = 1;
const SVG = "http://www.w3.org/2000/svg";
const at = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");

let game, network, turn = 0, chosen = null, history = [], cards = new Map(); // `turn` cancels what waits for an older one

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

/** One of the pictures of cards.svg. */
function picture(name) {
  const svg = document.createElementNS(SVG, "svg"), use = document.createElementNS(SVG, "use");
  svg.setAttribute("viewBox", "-54 -74 108 150");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}

const owned = (card) => `${seatOf(card) === YOU ? "your" : "the policy’s"} ${NAMES[strengthOf(card) - 1]}`;
const sentence = (text) => text[0].toUpperCase() + text.slice(1);
const list = (found) => found.length < 2 ? found.join("") : `${found.slice(0, -1).join(", ")} and ${found.at(-1)}`;

/** An action in words. */
function named(queue, action) {
  const play = decode(queue, action);
  let text = NAMES[play.strength - 1];
  if (play.copied >= 0) text += ` as ${owned(queue[play.copied])}`;
  if (play.victim >= 0) return `${text} against ${owned(queue[play.victim])}, place ${play.victim + 1}`;
  if (NAMES[play.acts - 1] !== "kangaroo") return text;
  return play.hop ? `${text} over ${play.hop} card${play.hop > 1 ? "s" : ""}` : `${text} into the empty queue`;
}

function told(seat, action, happened, before, after) {
  const said = [`${seat === YOU ? "You play" : "The policy plays"} the ${named(before.queue, action)}.`];
  const { gone, entered } = happened;
  if (gone.length) said.push(`${sentence(list(gone.map(owned)))} ${gone.length > 1 ? "are" : "is"} thrown out.`);
  if (entered.length) said.push(`${sentence(list(entered.map(owned)))} enter the bar.`);
  if (seat === YOU && before.deck[YOU].length) said.push(`You draw the ${NAMES[before.deck[YOU][0] - 1]}.`);
  if (isOver(after)) said.push(`The game is over: ${result(after)}.`);
  return said.join(" ");
}

function result({ bar }) {
  const [mine, theirs] = bar.map(pointsOf), points = `${Math.max(mine, theirs)} to ${Math.min(mine, theirs)}`;
  return mine === theirs ? `a draw, ${points}` : `${mine > theirs ? "you win" : "the policy wins"}, ${points}`;
}

// ---- drawing --------------------------------------------------------------------------------------------------------

/** The element of a card that lies face up: the same one wherever it goes, so that it can be seen to move. */
function cardElement(card, button) {
  let element = cards.get(card);
  if (!element || (element.tagName === "BUTTON") !== button) {
    element = button ? make("button", { class: "card", click: () => choose(card) }) : make("span", { class: "card" });
    element.append(picture(`card-${card}`));
    element.dataset.card = card;
  }
  element.title = owned(card);
  if (button) element.setAttribute("aria-label", owned(card));
  else element.setAttribute("role", "img"), element.setAttribute("aria-label", owned(card));
  cards.set(card, element);
  return element;
}

/** Draws a table; of the policy's hand only the number of its cards. */
function draw(shown) {
  const before = new Map([...cards].filter(([, element]) => element.isConnected).map(([card, element]) => [card, element.getBoundingClientRect()]));
  const origin = [at("deck-0"), at("hand-1").lastElementChild || at("hand-1")].map((element) => element.getBoundingClientRect());
  for (const seat of [YOU, POLICY]) {
    const code = (strength) => 12 * seat + strength - 1;
    for (const zone of ["bar", "out"]) {
      at(`${zone}-${seat}`).replaceChildren(...species(shown[zone][seat]).map((strength) => cardElement(code(strength), false)));
    }
    at(`points-${seat}`).textContent = `${seat === YOU ? "You" : "Policy"}: ${pointsOf(shown.bar[seat])} points`;
    at(`deck-${seat}`).replaceChildren(...(shown.decks[seat] ? [make("span", { class: "back" }, picture(`back-${seat}`)), make("b", {}, shown.decks[seat])] : []));
    at(`deck-${seat}`).title = `${shown.decks[seat]} cards in the deck`;
    document.querySelector(`.panel-${seat}`).classList.toggle("asked", shown.mover === seat);
  }
  at("queue").replaceChildren(...shown.queue.map((card) => cardElement(card, false)),
    ...Array.from({ length: Math.max(5 - shown.queue.length, 0) }, (_, i) => make("span", { class: "slot" }, shown.queue.length + i + 1)));
  at("hand-0").replaceChildren(...species(shown.hand).map((strength) => cardElement(strength - 1, true)));
  at("hand-1").replaceChildren(...Array.from({ length: shown.otherHand }, () => make("span", { class: "back" }, picture("back-1"))));
  const pace = Number(at("pace").value);
  if (!pace || still.matches) return;
  for (const [card, element] of cards) {
    if (!element.isConnected) { cards.delete(card); continue; }
    const from = before.get(card) || (shown.quiet ? null : origin[seatOf(card)]), to = element.getBoundingClientRect();
    if (!from || !to.width || Math.hypot(from.x - to.x, from.y - to.y) < 2) continue;
    const move = `translate(${from.x - to.x}px, ${from.y - to.y}px) scale(${from.width / to.width})`;
    element.style.transformOrigin = "0 0";
    element.animate([{ transform: move, zIndex: 2 }, { transform: "none", zIndex: 2 }], { duration: Math.min(pace * .8, 600), easing: "ease-in-out" });
  }
}

/** What the person sees of a game. */
const seen = (state, more = {}) => {
  const mine = view(state, YOU);
  return { ...mine, decks: [count(mine.deck), mine.otherDeck], mover: isOver(state) ? null : toMove(state), ...more };
};

function tell(text, asked = false) {
  at("state").textContent = text;
  at("state").classList.toggle("asked", asked);
}

// ---- a game ---------------------------------------------------------------------------------------------------------

const wait = () => new Promise((done) => setTimeout(done, Number(at("pace").value)));

function randomBelow(n) {
  return Math.floor(crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32 * n);
}

function start() {
  turn++;
  [history, cards, game] = [[], new Map(), deal(randomBelow)];
  at("story").replaceChildren();
  note(toMove(game) === YOU ? "You begin." : "The policy begins.");
  draw(seen(game, { quiet: true }));
  next();
}

function note(text) {
  at("story").append(make("li", {}, text));
  at("story").scrollTop = at("story").scrollHeight;
}

/** Asks the seat to move, or ends the game. */
async function next() {
  chosen = null;
  at("advice").hidden = true;
  at("undo").disabled = history.length === 0;
  if (isOver(game)) return finish();
  if (toMove(game) === YOU) return ask();
  const mine = ++turn;
  tell("The policy is to move.");
  at("actions").replaceChildren();
  setHand([]);
  at("hint").disabled = true;
  await wait();
  if (mine === turn) take(greedy(opinion(POLICY).logits));
}

/** What the network says for a seat, from what that seat may see. */
function opinion(seat) {
  const known = view(game, seat);
  return network.evaluate(features(known, network.settings.features), legalActions(known.queue, known.hand));
}

function ask() {
  tell("It is your turn.", true);
  at("hint").disabled = false;
  offer(legalActions(game.queue, game.hand[YOU]));
}

function setHand(actions) {
  for (const element of at("hand-0").children) {
    const strength = Number(element.dataset.card) + 1;
    element.disabled = !actions.some((action) => decode(game.queue, action).strength === strength);
    element.classList.toggle("chosen", chosen === strength);
  }
}

/** Shows actions as buttons, those of the chosen card alone. */
function offer(actions) {
  setHand(actions);
  const found = actions.filter((action) => chosen === null || decode(game.queue, action).strength === chosen);
  at("actions").replaceChildren(...found.map((action, i) =>
    make("button", { class: "action", "data-action": action, click: () => answer(action) },
      i < 9 ? make("kbd", {}, i + 1) : null, sentence(named(game.queue, action)))));
}

/** A card of the hand is clicked: it is played, or its actions are shown. */
function choose(card) {
  if (isOver(game) || toMove(game) !== YOU) return;
  const actions = legalActions(game.queue, game.hand[YOU]), strength = strengthOf(card);
  const own = actions.filter((action) => decode(game.queue, action).strength === strength);
  if (own.length === 1) return answer(own[0]);
  chosen = chosen === strength ? null : strength;
  offer(actions);
  tell(chosen ? `${sentence(NAMES[strength - 1])}: choose what it does.` : "It is your turn.", true);
}

function answer(action) {
  history.push({ game, told: at("story").children.length });
  take(action);
}

/** Carries out a turn, stage by stage. */
async function take(action) {
  const mine = ++turn, before = game, seat = toMove(before), happened = playTurn(before, seat, action);
  game = step(before, action);
  at("actions").replaceChildren();
  at("hint").disabled = true;
  at("advice").hidden = true;
  tell(sentence(`${seat === YOU ? "you play" : "the policy plays"} the ${named(before.queue, action)}.`));
  const shown = seen(before, { mover: seat }), played = decode(before.queue, action).strength;
  if (seat === YOU) shown.hand &= ~(1 << (played - 1));
  else shown.otherHand--;
  let last = "";
  for (const queue of happened.stages) {
    if (String(queue) === last) continue;
    last = String(queue);
    const out = [...before.out];
    for (const card of happened.stages[0]) if (!queue.includes(card)) out[seatOf(card)] |= 1 << (strengthOf(card) - 1);
    draw({ ...shown, queue, out });
    setHand([]);
    if (Number(at("pace").value)) await wait();
    if (mine !== turn) return;
  }
  draw(seen(game));
  setHand([]);
  note(told(seat, action, happened, before, game));
  next();
}

function finish() {
  const [mine, theirs] = game.bar.map(pointsOf);
  tell(`${sentence(result(game))}.`, true);
  setHand([]);
  at("hint").disabled = true;
  at("actions").replaceChildren(make("div", { class: "end panel" },
    make("table", {}, make("tr", {}, make("th", {}, ""), make("th", { class: "number" }, "points"), make("th", { class: "number" }, "animals in the bar")),
      ...[["You", YOU, mine], ["The policy", POLICY, theirs]].map(([who, seat, points]) =>
        make("tr", {}, make("td", {}, who), make("td", { class: "number" }, points), make("td", { class: "number" }, count(game.bar[seat]))))),
    make("button", { class: "main", click: start }, "Play again")));
}

function undo() {
  const last = history.pop();
  if (!last) return;
  turn++;
  game = last.game;
  while (at("story").children.length > last.told) at("story").lastElementChild.remove();
  draw(seen(game));
  next();
}

function hint() {
  const { logits, value } = opinion(YOU), odds = [...probabilities(logits)].sort((one, other) => other[1] - one[1]).slice(0, 5);
  const [[best]] = odds, rows = odds.map(([action, share]) => {
    const bar = make("i");
    bar.style.width = `${100 * share}%`;
    return make("tr", { class: action === best && "best" }, make("td", {}, sentence(named(game.queue, action))),
      make("td", { class: "bar" }, bar), make("td", { class: "number" }, `${Math.round(100 * share)} %`));
  });
  const expects = Math.min(Math.max(value, -1), 1).toFixed(2).replace("-", "−");
  at("advice").replaceChildren(make("p", {}, "In your place the policy would choose ", make("b", {}, sentence(named(game.queue, best))),
    `; it expects ${value < 0 ? "" : "+"}${expects} (win +1, loss −1).`), make("table", { class: "odds" }, rows));
  at("advice").hidden = false;
}

// ---- the page -------------------------------------------------------------------------------------------------------

function theme() {
  const root = document.documentElement, dark = getComputedStyle(root).colorScheme.split(" ").length > 1
    ? matchMedia("(prefers-color-scheme: dark)").matches : root.dataset.theme === "dark";
  root.dataset.theme = dark ? "light" : "dark";
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const buttons = { h: at("hint"), u: at("undo"), n: at("again") };
  const button = buttons[event.key] || (/^[1-9]$/.test(event.key) && document.querySelectorAll(".action")[event.key - 1]);
  if (button && !button.disabled) button.click();
}

async function load() {
  const get = async (name) => {
    const answer = await fetch(name);
    if (!answer.ok) throw new Error(`${name} is missing`);
    return answer;
  };
  const [sheet, policy] = await Promise.all([get("cards.svg").then((found) => found.text()), get("policy.bin").then((found) => found.arrayBuffer())]);
  const sprites = document.importNode(new DOMParser().parseFromString(sheet, "image/svg+xml").documentElement, true);
  sprites.classList.add("sprites");
  document.body.append(sprites);
  network = readNetwork(policy);
  at("name-1").replaceChildren("The policy", make("small", {}, network.settings.policy));
  for (const [id, act] of Object.entries({ theme, hint, undo, again: start })) at(id).addEventListener("click", act);
  document.addEventListener("keydown", pressed);
  at("again").disabled = false;
  start();
}

load().catch((error) => tell(`The page cannot start: ${error.message}.`));
