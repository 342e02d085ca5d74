// The rules of Beasty Bar for two seats as pure functions of small arrays; tests replay every recorded game with them.
//
// A card is a number, 12 * seat + strength - 1; a set of one seat's species is a bit mask, bit strength - 1. A game is
// { queue: cards, front first; bar, out, hand: [mask of seat 0, mask of seat 1]; deck: [strengths, strengths], next
// card first; ply: turns played; start: the seat that began }.

export const NAMES = ["skunk", "parrot", "kangaroo", "monkey", "chameleon", "seal", "zebra", "giraffe", "snake",
  "crocodile", "hippo", "lion"];
export const POINTS = [4, 4, 4, 3, 3, 2, 4, 3, 2, 3, 2, 2];
export const ACTIONS = 31;
const SKUNK = 1, PARROT = 2, KANGAROO = 3, MONKEY = 4, CHAMELEON = 5, SEAL = 6, ZEBRA = 7, GIRAFFE = 8, SNAKE = 9,
  CROCODILE = 10, HIPPO = 11, LION = 12;
const HAND = 4, END = 20, ALL = 4095;

export const seatOf = (card) => card < 12 ? 0 : 1;
export const strengthOf = (card) => card % 12 + 1;
export const bit = (strength) => 1 << (strength - 1);
export const species = (mask) => NAMES.map((_, i) => i + 1).filter((strength) => mask & bit(strength));
export const count = (mask) => species(mask).length;
export const pointsOf = (mask) => species(mask).reduce((sum, strength) => sum + POINTS[strength - 1], 0);

/** A game from two orders of strengths and the seat that begins. */
export function begin(decks, start) {
  const hand = decks.map((deck) => deck.slice(0, HAND).reduce((mask, strength) => mask | bit(strength), 0));
  return { queue: [], bar: [0, 0], out: [0, 0], hand, deck: decks.map((deck) => deck.slice(HAND)), ply: 0, start };
}

/** A game from shuffled decks; `below(n)` draws a whole number from 0 to n - 1. */
export function deal(below) {
  const decks = [0, 1].map(() => {
    const deck = NAMES.map((_, i) => i + 1);
    for (let last = deck.length - 1; last > 0; last--) {
      const other = below(last + 1);
      [deck[last], deck[other]] = [deck[other], deck[last]];
    }
    return deck;
  });
  return begin(decks, below(2));
}

export const toMove = (game) => (game.start + game.ply) % 2;

export const isOver = (game) => [...game.bar, ...game.out].reduce((sum, mask) => sum + count(mask), 0) >= END;

/** What one seat may know, seen from its side: its own cards are 0 to 11 and its masks come first. */
export function view(game, seat) {
  const other = 1 - seat;
  const mine = (pair) => [pair[seat], pair[other]];
  const left = game.deck[seat].reduce((mask, strength) => mask | bit(strength), 0);
  const shown = game.queue.filter((card) => seatOf(card) === other).map(strengthOf);
  return {
    queue: game.queue.map((card) => seat ? (card + 12) % 24 : card),
    bar: mine(game.bar), out: mine(game.out), hand: game.hand[seat], deck: left,
    unseen: ALL & ~(game.bar[other] | game.out[other] | shown.reduce((mask, strength) => mask | bit(strength), 0)),
    otherHand: count(game.hand[other]), otherDeck: game.deck[other].length, ply: game.ply,
    toMove: toMove(game) === seat, started: game.start === seat,
  };
}

/** The legal actions of a hand (a mask), ascending. */
export function legalActions(queue, hand) {
  const n = queue.length, found = [];
  const has = (strength) => hand & bit(strength);
  for (let action = 0; action < 9; action++) if (has(decode(queue, action).strength)) found.push(action);
  const hops = n >= 2 ? 2 : 1, victims = Math.max(n, 1);
  if (has(KANGAROO)) for (let hop = 0; hop < hops; hop++) found.push(9 + hop);
  if (has(PARROT)) for (let place = 0; place < victims; place++) found.push(11 + place);
  if (has(CHAMELEON)) {
    const copies = queue.flatMap((card, place) => {
      const kind = strengthOf(card), choices = kind === PARROT ? n : kind === KANGAROO ? hops : kind === CHAMELEON ? 0 : 1;
      return Array.from({ length: choices }, (_, choice) => 15 + 4 * place + choice);
    });
    found.push(...(copies.length ? copies : [15]));
  }
  return found;
}

/** An action taken apart: the card's strength, the species that it acts as, the places (-1: none) of the card that a
 * chameleon copies and of a parrot's victim, and the cards that a kangaroo hops over. */
export function decode(queue, action) {
  const n = queue.length;
  const play = (strength, acts, copied, choice) => ({
    strength, acts, copied,
    victim: acts === PARROT && choice < n ? choice : -1,
    hop: acts === KANGAROO ? Math.min(choice + 1, n) : 0,
  });
  if (action < 9) {
    const strength = action === 0 ? SKUNK : action === 1 ? MONKEY : action + 4;
    return play(strength, strength, -1, 0);
  }
  if (action < 11) return play(KANGAROO, KANGAROO, -1, action - 9);
  if (action < 15) return play(PARROT, PARROT, -1, action - 11);
  const place = action - 15 >> 2, target = place < n ? strengthOf(queue[place]) : CHAMELEON;
  return target === CHAMELEON ? play(CHAMELEON, CHAMELEON, -1, 0) : play(CHAMELEON, target, place, action - 15 & 3);
}

/** One complete turn of `seat` without the draw: the new { queue, bar, out }, and `stages`: the queue after the card is
 * placed, after its action and after each card that acts again, for pictures. */
export function playTurn(table, seat, action) {
  const play = decode(table.queue, action), victim = table.queue[play.victim];
  const me = { card: 12 * seat + play.strength - 1, strength: play.acts };
  let queue = [...table.queue.map((card) => ({ card, strength: strengthOf(card) })), me];
  const stages = [], cards = () => queue.map((one) => one.card);
  stages.push(cards());
  queue = ownAction(queue, me, play, victim);
  me.strength = play.strength;
  stages.push(cards());
  for (const one of queue.filter((each) => each !== me && [HIPPO, CROCODILE, GIRAFFE].includes(each.strength))) {
    queue = advance(queue, one);
    stages.push(cards());
  }
  const entered = queue.length === 5 ? queue.splice(0, 2).map((one) => one.card) : [];
  if (entered.length) queue.pop();
  const here = cards(), gone = stages[0].filter((card) => !here.includes(card) && !entered.includes(card));
  const add = (zone, list) => zone.map((mask, owner) =>
    list.filter((card) => seatOf(card) === owner).reduce((sum, card) => sum | bit(strengthOf(card)), mask));
  return { queue: here, bar: add(table.bar, entered), out: add(table.out, gone), stages, entered, gone };
}

function ownAction(queue, me, play, victim) {
  const others = queue.filter((one) => one !== me), number = (strength) => queue.filter((one) => one.strength === strength).length;
  switch (play.acts) {
    case LION:
      return number(LION) > 1 ? others : [me, ...others.filter((one) => one.strength !== MONKEY)];
    case HIPPO: case CROCODILE: case GIRAFFE:
      return advance(queue, me);
    case SNAKE:
      return [...queue].sort((one, other) => other.strength - one.strength); // stable
    case SEAL:
      return [...queue].reverse();
    case MONKEY: {
      if (number(MONKEY) < 2) return queue;
      const rest = others.filter((one) => one.strength !== HIPPO && one.strength !== CROCODILE);
      const monkeys = rest.filter((one) => one.strength === MONKEY).reverse();
      return [me, ...monkeys, ...rest.filter((one) => one.strength !== MONKEY)];
    }
    case KANGAROO:
      return [...others.slice(0, others.length - play.hop), me, ...others.slice(others.length - play.hop)];
    case PARROT:
      return queue.filter((one) => one.card !== victim);
    case SKUNK: {
      const kinds = [...new Set(queue.map((one) => one.strength))].filter((strength) => strength !== SKUNK);
      const strongest = kinds.sort((one, other) => other - one).slice(0, 2);
      return queue.filter((one) => !strongest.includes(one.strength));
    }
    default: // a zebra; a chameleon without a target
      return queue;
  }
}

/** A hippo, crocodile or giraffe moves forward. */
function advance(queue, one) {
  const moved = [...queue];
  let place = moved.indexOf(one);
  const weaker = (strength) => place > 0 && moved[place - 1].strength < strength;
  const passes = (strength) => weaker(strength) && moved[place - 1].strength !== ZEBRA;
  const swap = () => { [moved[place - 1], moved[place]] = [moved[place], moved[place - 1]]; place--; };
  if (one.strength === GIRAFFE) { if (weaker(GIRAFFE)) swap(); }
  else if (one.strength === HIPPO) while (passes(HIPPO)) swap();
  else while (passes(CROCODILE)) moved.splice(--place, 1);
  return moved;
}

/** The game after one legal action of the seat to move, with the draw. */
export function step(game, action) {
  const seat = toMove(game), { queue, bar, out } = playTurn(game, seat, action);
  const [drawn, ...rest] = game.deck[seat];
  const hand = [...game.hand], deck = [...game.deck];
  hand[seat] = hand[seat] & ~bit(decode(game.queue, action).strength) | (drawn ? bit(drawn) : 0);
  deck[seat] = rest;
  return { queue, bar, out, hand, deck, ply: game.ply + 1, start: game.start };
}
