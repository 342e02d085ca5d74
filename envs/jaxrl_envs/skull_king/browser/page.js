// The table: draws what the person in seat 0 may see, asks, and lets the network answer for each other seat from that
// seat's own view of the game.

import { canonicalSuits, features, renamedAction } from "./features.js";
import { greedy } from "./network.js";
import { BENDT, BID, END, FIRST_HARRY, FIRST_PLAY, FIRST_ROATAN, FIRST_ROSIE, HARRY, PLAY, PLAY_TIGRESS_PIRATE, ROATAN, ROSIE, ROUNDS, SUITS,
  TIGRESS, TIGRESS_PIRATE, cardOf, deal, dealt, following, legalActions, nameOf, ranks, resolve, step, view } from "./rules.js";
import { advise, at, backs, cardElement, finish as showEnd, forgetCards, list, make, note, offer as showActions, open, pace,
  randomBelow, redraw, sentence, signed, tell, told, untell, wait } from "./table.js";

const YOU = 0, NAMES = ["you", "Anne", "Jack", "Mary", "Henry", "Grace", "Bart", "Stede"]; // of the seats
const HELD = 2.7; // paces that a full trick lies
const ASKED = { [BID]: "how many tricks will you take?", [PLAY]: "play a card.", [ROSIE]: "who leads the next trick?", [BENDT]: "discard a card.",
  [ROATAN]: "what do you wager on your bid?", [HARRY]: "change your bid, or keep it." };
let game, network, places, turn = 0, chosen = null, history = []; // `turn` cancels what waits for an older one

const playOf = (action) => action === PLAY_TIGRESS_PIRATE ? TIGRESS_PIRATE : action - FIRST_PLAY;
const does = (seat, verb) => `${NAMES[seat]} ${verb}${seat === YOU ? "" : "s"}`;
const named = (play) => play === TIGRESS ? "Tigress (escape)" : nameOf(play);
const byAll = (values) => list(values.map((value, seat) => `${NAMES[seat]} ${value}`));

/** An action of a person in words. */
function wording(action) {
  switch (game.phase) {
    case BID: return `bid ${action}`;
    case BENDT: return `discard ${nameOf(playOf(action))}`;
    case ROSIE: return does((YOU + action - FIRST_ROSIE) % NAMES.length, "lead");
    case ROATAN: return `wager ${10 * (action - FIRST_ROATAN)}`;
    case HARRY: return action === FIRST_HARRY + 1 ? "keep the bid" : `change the bid to ${game.round.bids[YOU] + action - FIRST_HARRY - 1}`;
    default: return named(playOf(action));
  }
}

/** A step in sentences. */
function story(before, action, { game: after, trick, round }) {
  const { phase, actor, setup } = before, said = [];
  if (phase === BID) {
    said.push(actor === YOU ? `You bid ${action}.` : `${NAMES[actor]} has bid.`);
    if (after.phase !== BID) said.push(`All bids: ${byAll(after.round.bids)}.`);
  } else if (phase === PLAY) said.push(`${does(actor, "play")} ${named(playOf(action))}.`);
  else if (phase === BENDT) said.push(`${does(actor, "discard")} ${actor === YOU ? nameOf(playOf(action)) : "a card face down"}.`);
  else if (phase === ROSIE) said.push(`${does(actor, "name")} ${NAMES[(actor + action - FIRST_ROSIE) % setup.players]} to lead.`);
  else if (phase === ROATAN) said.push(`${does(actor, "wager")} ${10 * (action - FIRST_ROATAN)}.`);
  else said.push(action === FIRST_HARRY + 1 ? `${does(actor, "keep")} the bid.` : `${does(actor, "change")} the bid by ${signed(action - FIRST_HARRY - 1)}.`);
  if (trick) {
    said.push(`${outcome(trick)}.`);
    for (const { seat, play } of trick.plays) if (play >= 72 && play < 74 && trick.winner >= 0 && seat !== trick.winner) said.push(`${NAMES[seat]} and ${NAMES[trick.winner]} are allied by Loot.`);
    if (after.phase === BENDT) said.push(`${does(after.actor, "draw")} two cards.`);
    if (trick.pirate === 64 && !round) said.push(`${does(trick.winner, "see")} the cards that were not dealt.`);
  }
  if (round) said.push(`Points of round ${before.number}: ${byAll(round.points.map((points) => signed(points)))}.`);
  if (after.phase === END) said.push(`The game is over: ${result(after)}.`);
  return said.map(sentence).join(" ");
}

const outcome = ({ winner, bonus }) => winner < 0 ? "no one wins the trick" : `${does(winner, "win")} the trick${bonus ? ` (+${bonus})` : ""}`;

function result({ scores }) {
  const places = ranks(scores), best = NAMES.filter((_, seat) => places[seat] === 1);
  return `${list(best)} ${best.length > 1 || places[YOU] === 1 ? "win" : "wins"} with ${Math.max(...scores)} points`;
}

// ---- drawing --------------------------------------------------------------------------------------------------------

/** A seat: its name, score, bid and tricks, and of the others the backs of the cards in hand. */
function panel(seat, v) {
  const bid = v.bids[seat], won = v.won[seat], known = bid !== null && bid !== undefined;
  const state = known ? `${won} of ${bid} trick${bid === 1 ? "" : "s"}` : v.made[seat] ? "has bid" : "bids …";
  const remarks = [seat === v.leader && v.phase === PLAY && "leads", v.captured[seat] && `+${v.captured[seat]} if exact`,
    v.wagers[seat] && `wager ${v.wagers[seat]}`, seat === v.harry && "may change the bid"].filter(Boolean);
  return make("div", { class: `seat${seat === v.actor && v.phase !== END ? " asked" : ""}`, id: `seat-${seat}` },
    make("p", { class: "name" }, sentence(NAMES[seat]), make("span", { title: "points" }, String(v.scores[seat]).replace("-", "−"))),
    make("p", { class: known && won === bid ? "good" : known && won > bid ? "over" : null }, state), make("p", { class: "small" }, remarks.join(", ")),
    seat === YOU ? null : make("div", { class: "backs" }, backs(v.sizes[seat], "back")));
}

/** Draws a table; the cards that others play come from their seats. */
function draw(v, winner = v.plays.length ? resolve(v.plays, v.leader).winner : -1) {
  const from = v.plays.map(({ seat }) => at(`seat-${seat}`)?.querySelector(".back:last-child")?.getBoundingClientRect());
  redraw(() => place(v, winner), (card) => from[v.plays.findIndex(({ play }) => cardOf(play) === card)]);
}

function place(v, winner) {
  const seats = v.scores.map((_, seat) => panel(seat, v)), { free, suit } = following(v.plays), size = dealt(v);
  at("others").replaceChildren(...seats.slice(1));
  at("own").replaceChildren(seats[YOU]);
  at("round").textContent = v.phase === END ? "Game over" : `Round ${v.number} of ${ROUNDS}, trick ${Math.min(v.tricks + 1, size)} of ${size}`;
  at("trick").replaceChildren(...v.plays.map(({ seat, play }) => make("figure", { class: seat === winner ? "wins" : null },
    cardElement(cardOf(play), `${NAMES[seat]}: ${named(play)}`, { shape: play }), make("figcaption", {}, sentence(NAMES[seat])))));
  at("follow").textContent = free ? "no suit to follow" : suit < SUITS.length ? `follow ${SUITS[suit]}` : "";
  at("hand").replaceChildren(...v.hand.map((card) => cardElement(card, nameOf(card), { act: choose })));
}

/** The points of the rounds so far. */
function sheet(rounds) {
  const seats = game.scores.map((_, seat) => sentence(NAMES[seat]));
  at("beside").replaceChildren(...(rounds.length ? [make("h2", {}, "Points"), make("table", {}, make("tr", {}, make("th", {}, ""), seats.map((name) => make("th", { class: "number" }, name))),
    rounds.map((round, i) => make("tr", {}, make("td", {}, i + 1), round.points.map((points, seat) =>
      make("td", { class: "number" }, signed(points), make("small", {}, `${round.won[seat]} of ${round.bids[seat]}`))))))] : []));
}

// ---- a game ---------------------------------------------------------------------------------------------------------

let rounds = []; // as they were scored

function start() {
  turn++;
  const { players = 4, expansion = true, abilities = true } = network.settings.options;
  [history, rounds, game] = [[], [], deal({ players, expansion, abilities }, randomBelow)];
  NAMES.length = players;
  forgetCards();
  at("story").replaceChildren();
  note(sentence(`${does(game.actor, "bid")} first.`));
  sheet(rounds);
  draw(view(game, YOU));
  next();
}

/** Asks the seat to act, or ends the game. */
async function next() {
  chosen = null;
  at("advice").hidden = true;
  at("undo").disabled = history.length === 0;
  if (game.phase === END) return finish();
  if (game.actor === YOU) return ask();
  const mine = ++turn;
  tell(sentence(`${does(game.actor, "think")} …`));
  quiet();
  await wait();
  if (mine === turn) take(greedy(opinion(game.actor).logits));
}

/** What the network says for a seat, from what that seat may see: { logits: Map by action, value }. */
function opinion(seat) {
  const v = view(game, seat), suits = network.settings.canonical ? canonicalSuits(v) : undefined;
  const legal = legalActions(game), known = suits ? legal.map((action) => renamedAction(action, suits)) : legal;
  const { logits, value } = network.evaluate(features(v, suits), known);
  return { logits: new Map(legal.map((action, i) => [action, logits.get(known[i])])), value };
}

/** Nothing is asked: no buttons, no cards to click. */
function quiet() {
  at("actions").replaceChildren();
  at("hint").disabled = true;
  setHand([]);
}

function ask() {
  tell(sentence(ASKED[game.phase]), true);
  at("hint").disabled = false;
  offer(legalActions(game));
}

const onCards = () => game.phase === PLAY || game.phase === BENDT;

function setHand(actions) {
  at("hand").classList.toggle("asking", actions.length > 0 && onCards());
  for (const element of at("hand").children) {
    element.disabled = !onCards() || !actions.some((action) => cardOf(playOf(action)) === Number(element.dataset.card));
    element.classList.toggle("chosen", Number(element.dataset.card) === chosen);
  }
}

/** Shows actions as buttons, those of the chosen card alone. */
function offer(actions) {
  setHand(actions);
  showActions(actions.filter((action) => chosen === null || cardOf(playOf(action)) === chosen), wording, answer);
}

/** A card of the hand is clicked: it is played, or its actions are shown. */
function choose(card) {
  if (game.actor !== YOU || !onCards()) return;
  const actions = legalActions(game), own = actions.filter((action) => cardOf(playOf(action)) === card);
  if (own.length === 1) return answer(own[0]);
  chosen = chosen === card ? null : card;
  offer(actions);
}

function answer(action) {
  history.push({ game, told: told(), rounds });
  take(action);
}

/** Carries out an action; a full trick lies for a moment. */
async function take(action) {
  const mine = ++turn, before = game, done = step(before, action);
  game = done.game;
  at("advice").hidden = true;
  if (done.trick) {
    const shown = view(before, YOU), { plays, winner } = done.trick;
    draw({ ...shown, plays, hand: shown.hand.filter((card) => !plays.some(({ play }) => cardOf(play) === card)), phase: END,
      sizes: shown.sizes.map((size, seat) => size - (seat === before.actor)) }, winner);
    at("round").textContent = `Round ${before.number} of ${ROUNDS}, trick ${before.round.tricks + 1} of ${dealt(before)}`;
    quiet();
    tell(`${sentence(outcome(done.trick))}.`);
    if (pace()) await wait(HELD);
    if (mine !== turn) return;
  }
  draw(view(game, YOU));
  if (done.round) sheet(rounds = [...rounds, done.round]);
  note(story(before, action, done));
  next();
}

function finish() {
  const places = ranks(game.scores), order = NAMES.map((_, seat) => seat).sort((one, other) => game.scores[other] - game.scores[one]);
  const exact = (seat) => rounds.filter((round) => round.exact[seat]).length;
  tell(`${sentence(result(game))}.`, true);
  quiet();
  showEnd(["", "points", "place", "exact bids"], order.map((seat) => [sentence(NAMES[seat]), game.scores[seat], places[seat], exact(seat)]), start);
}

function undo() {
  const last = history.pop();
  if (!last) return;
  turn++;
  ({ game, rounds } = last);
  untell(last.told);
  sheet(rounds);
  draw(view(game, YOU));
  next();
}

function hint() {
  const { logits, value } = opinion(YOU), { reward, episode } = network.settings.options;
  const points = reward === "points_dense" && episode === "round"; // the value is of the points of this round
  advise(logits, wording, points ? `; it expects ${signed(100 * value)} points in this round` : "");
}

open((found) => { network = found; }, { hint, undo, again: start });
