// Shared by the tables of all games: cards that are seen to move, buttons, the hint, and the page around them.

import { at, draw, make, wait as pause } from "./common.js";
import { probabilities, readNetwork } from "./network.js";
import { list } from "./words.js";

export { at, list, make };
const still = matchMedia("(prefers-reduced-motion: reduce)");
const cards = new Map(); // the elements of the cards that lie face up
let box = ""; // what a picture of cards.svg shows, its viewBox

export const sentence = (text) => text[0].toUpperCase() + text.slice(1);
export const pace = () => Number(at("pace").value);
export const wait = (times = 1) => pause(times * pace());
export const randomBelow = (n) => Math.floor(crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32 * n);

// ---- cards ----------------------------------------------------------------------------------------------------------

/** One of the pictures of cards.svg. */
export function picture(name) {
  const svg = draw("svg", { viewBox: box, "aria-hidden": "true" });
  svg.append(draw("use", { href: `#${name}` }));
  return svg;
}

export const backs = (count, name) => Array.from({ length: count }, () => make("span", { class: "back" }, picture(name)));

/** The element of a card that lies face up, a button if it can `act`: the same one wherever it goes, so that it can be
 * seen to move. `shape`: its picture. */
export function cardElement(card, label, { act = null, shape = card } = {}) {
  let element = cards.get(card);
  if (!element || (element.tagName === "BUTTON") !== Boolean(act) || element.dataset.shape !== String(shape)) {
    element = act ? make("button", { class: "card", click: () => act(card) }) : make("span", { class: "card", role: "img" });
    element.append(picture(`card-${shape}`));
    Object.assign(element.dataset, { card, shape });
  }
  element.title = label;
  element.setAttribute("aria-label", label);
  cards.set(card, element);
  return element;
}

export const forgetCards = () => cards.clear();

/** Calls `draw` and lets the cards move to where it puts them: from where they lay, or from `origin(card)`, a rectangle of
 * before; without one they appear. */
export function redraw(draw, origin) {
  const before = new Map([...cards].filter(([, element]) => element.isConnected).map(([card, element]) => [card, element.getBoundingClientRect()]));
  draw();
  for (const [card, element] of cards) {
    if (!element.isConnected) { cards.delete(card); continue; }
    if (!pace() || still.matches) continue;
    const from = before.get(card) || origin(card), to = element.getBoundingClientRect();
    if (!from || !to.width || Math.hypot(from.x - to.x, from.y - to.y) < 2) continue;
    const move = `translate(${from.x - to.x}px, ${from.y - to.y}px) scale(${from.width / to.width})`;
    element.style.transformOrigin = "0 0";
    element.animate([{ transform: move, zIndex: 2 }, { transform: "none", zIndex: 2 }], { duration: Math.min(pace() * .8, 600), easing: "ease-in-out" });
  }
}

// ---- words and buttons ----------------------------------------------------------------------------------------------

export function tell(text, asked = false) {
  at("state").textContent = text;
  at("state").classList.toggle("asked", asked);
}

export function note(text) {
  at("story").append(make("li", {}, text));
  at("story").scrollTop = at("story").scrollHeight;
}

export const told = () => at("story").children.length;

/** Takes the story back to its first `count` sentences. */
export function untell(count) {
  while (told() > count) at("story").lastElementChild.remove();
}

/** Shows actions as buttons. */
export function offer(actions, named, act) {
  at("actions").replaceChildren(...actions.map((action, i) =>
    make("button", { class: "action", "data-action": action, click: () => act(action) }, i < 9 ? make("kbd", {}, i + 1) : null, sentence(named(action)))));
}

/** Ends a game: the rows of a table of results under their headings, and a button that starts another. */
export function finish(headings, rows, start) {
  const cell = (tag, text, i) => make(tag, { class: i ? "number" : null }, text);
  at("hint").disabled = true;
  at("actions").replaceChildren(make("div", { class: "end panel" }, make("table", {}, make("tr", {}, headings.map((text, i) => cell("th", text, i))),
    rows.map((row) => make("tr", {}, row.map((text, i) => cell("td", text, i))))), make("button", { class: "main", click: start }, "Play again")));
}

/** Shows what the network would choose, the likeliest first, and what it expects. */
export function advise(logits, named, expects) {
  const odds = [...probabilities(logits)].sort((one, other) => other[1] - one[1]).slice(0, 5);
  const [[best]] = odds, rows = odds.map(([action, share]) =>
    make("tr", { class: action === best && "best" }, make("td", {}, sentence(named(action))),
      make("td", { class: "bar" }, make("i", { style: { width: `${100 * share}%` } })), make("td", { class: "number" }, `${Math.round(100 * share)} %`)));
  at("advice").replaceChildren(make("p", {}, "In your place the policy would choose ", make("b", {}, sentence(named(best))), `${expects}.`), make("table", { class: "odds" }, rows));
  at("advice").hidden = false;
}

/** A number with its sign, as people write it. */
export const signed = (number, digits = 0) => `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(digits)}`;

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

async function load(ready, acts) {
  const get = async (name) => {
    const answer = await fetch(name);
    if (!answer.ok) throw new Error(`${name} is missing`);
    return answer;
  };
  const [sheet, policy] = await Promise.all([get("cards.svg").then((found) => found.text()), get("policy.bin").then((found) => found.arrayBuffer())]);
  const sprites = document.importNode(new DOMParser().parseFromString(sheet, "image/svg+xml").documentElement, true);
  box = sprites.getAttribute("viewBox");
  sprites.classList.add("sprites");
  document.body.append(sprites);
  ready(readNetwork(policy));
  for (const [id, act] of Object.entries({ theme, ...acts })) at(id).addEventListener("click", () => act());
  document.addEventListener("keydown", pressed);
  at("again").disabled = false;
  acts.again();
}

/** Loads pictures and network, hands the network to `ready` and starts the first game; `acts`: of the buttons hint, undo
 * and again. */
export const open = (ready, acts) => load(ready, acts).catch((error) => tell(`The page cannot start: ${error.message}.`));
