// The table: draws what the person may see, asks, and lets the network answer from its own view of the game.

import { features } from "./features.js";
import { greedy } from "./network.js";
import { NAMES, count, deal, decode, isOver, legalActions, playTurn, pointsOf, seatOf, species, step, strengthOf, toMove, view } from "./rules.js";
import { advise, at, backs, cardElement, finish as showEnd, forgetCards, list, make, note, offer as showActions, open, pace, picture,
  randomBelow, redraw, sentence, signed, tell, told, untell, wait } from "./table.js";

const YOU = 0, POLICY = 1;
let game, network, turn = 0, chosen = null, history = []; // `turn` cancels what waits for an older one

const owned = (card) => `${seatOf(card) === YOU ? "your" : "the policy’s"} ${NAMES[strengthOf(card) - 1]}`;

/** An action in words. */
function named(queue, action) {
  const play = decode(queue, action);
  let text = NAMES[play.strength - 1];
  if (play.copied >= 0) text += ` as ${owned(queue[play.copied])}`;
  if (play.victim >= 0) return `${text} against ${owned(queue[play.victim])}, place ${play.victim + 1}`;
  if (NAMES[play.acts - 1] !== "kangaroo") return text;
  return play.hop ? `${text} over ${play.hop} card${play.hop > 1 ? "s" : ""}` : `${text} into the empty queue`;
}

function story(seat, action, happened, before, after) {
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

/** Draws a table; of the policy's hand only the number of its cards. New cards come from the decks. */
function draw(shown) {
  const origin = [at("deck-0"), at("hand-1").lastElementChild || at("hand-1")].map((element) => element.getBoundingClientRect());
  redraw(() => place(shown), (card) => shown.quiet ? null : origin[seatOf(card)]);
}

function place(shown) {
  const lying = (card, act = null) => cardElement(card, owned(card), { act });
  for (const seat of [YOU, POLICY]) {
    for (const zone of ["bar", "out"]) {
      at(`${zone}-${seat}`).replaceChildren(...species(shown[zone][seat]).map((strength) => lying(12 * seat + strength - 1)));
    }
    at(`points-${seat}`).textContent = `${seat === YOU ? "You" : "Policy"}: ${pointsOf(shown.bar[seat])} points`;
    at(`deck-${seat}`).replaceChildren(...(shown.decks[seat] ? [make("span", { class: "back" }, picture(`back-${seat}`)), make("b", {}, shown.decks[seat])] : []));
    at(`deck-${seat}`).title = `${shown.decks[seat]} cards in the deck`;
    document.querySelector(`.panel-${seat}`).classList.toggle("asked", shown.mover === seat);
  }
  at("queue").replaceChildren(...shown.queue.map((card) => lying(card)),
    ...Array.from({ length: Math.max(5 - shown.queue.length, 0) }, (_, i) => make("span", { class: "slot" }, shown.queue.length + i + 1)));
  at("hand-0").replaceChildren(...species(shown.hand).map((strength) => lying(strength - 1, choose)));
  at("hand-1").replaceChildren(...backs(shown.otherHand, "back-1"));
}

/** What the person sees of a game. */
const seen = (state, more = {}) => {
  const mine = view(state, YOU);
  return { ...mine, decks: [count(mine.deck), mine.otherDeck], mover: isOver(state) ? null : toMove(state), ...more };
};

// ---- a game ---------------------------------------------------------------------------------------------------------

function start() {
  turn++;
  [history, game] = [[], deal(randomBelow)];
  forgetCards();
  at("story").replaceChildren();
  note(toMove(game) === YOU ? "You begin." : "The policy begins.");
  draw(seen(game, { quiet: true }));
  next();
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
  showActions(actions.filter((action) => chosen === null || decode(game.queue, action).strength === chosen), (action) => named(game.queue, action), answer);
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
  history.push({ game, told: told() });
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
    if (pace()) await wait();
    if (mine !== turn) return;
  }
  draw(seen(game));
  setHand([]);
  note(story(seat, action, happened, before, game));
  next();
}

function finish() {
  const [mine, theirs] = game.bar.map(pointsOf);
  tell(`${sentence(result(game))}.`, true);
  setHand([]);
  showEnd(["", "points", "animals in the bar"], [["You", mine, count(game.bar[YOU])], ["The policy", theirs, count(game.bar[POLICY])]], start);
}

function undo() {
  const last = history.pop();
  if (!last) return;
  turn++;
  game = last.game;
  untell(last.told);
  draw(seen(game));
  next();
}

function hint() {
  const { logits, value } = opinion(YOU), expected = signed(Math.min(Math.max(value, -1), 1), 2);
  advise(logits, (action) => named(game.queue, action), `; it expects ${expected} (win +1, loss −1)`);
}

function ready(found) {
  network = found;
  at("name-1").replaceChildren("The policy", make("small", {}, network.settings.policy));
}

open(ready, { hint, undo, again: start });
