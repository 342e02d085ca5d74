// What the network reads of one seat's view (`rules.view`): four sets of cards and what is known of each seat. Nothing
// hidden goes in. Tests compare every number with the trained policy's own features.

import { BID, FIRST_PLAY, KING, KRAKEN, NO_SUIT, PLAY, TIGRESS_PIRATE, WHALE, dealt, following, isBeast, isEscape, isMermaid, isPirate, lastBeast, resolve, suitOf } from "./rules.js";

const CARDS = Array.from({ length: 74 }, (_, card) => card), PLAIN = [0, 1, 2]; // suits that only differ by name
const CLASSES = [isEscape, isPirate, (play) => play === KING, isMermaid, (play) => play === KRAKEN, (play) => play === WHALE];
const oneHot = (index, size) => Array.from({ length: size }, (_, i) => Number(i === index));

/** Of each plain suit the place that a network with canonical observations knows it by: first the one to follow, then by
 * the cards in hand, the most first. */
export function canonicalSuits(view) {
  const { free, suit } = following(view.plays), of = (cards, which) => cards.filter((card) => card < 56 && suitOf(card) === which);
  const rank = (which) => {
    const hand = of(view.hand, which), numbers = hand.reduce((bits, card) => bits | 1 << card % 14, 0);
    return [Number(!free && suit === which), hand.length, numbers, of(view.seen, which).length];
  };
  const ranks = PLAIN.map(rank), order = [...PLAIN].sort((one, other) => {
    const differs = ranks[one].findIndex((value, i) => value !== ranks[other][i]);
    return differs < 0 ? one - other : ranks[other][differs] - ranks[one][differs];
  });
  return PLAIN.map((which) => order.indexOf(which));
}

/** The card, play or action by its place instead of its suit. */
export const renamed = (play, places) => play < 42 ? 14 * places[suitOf(play)] + play % 14 : play;
export const renamedAction = (action, places) =>
  action >= FIRST_PLAY && action < FIRST_PLAY + 42 ? FIRST_PLAY + renamed(action - FIRST_PLAY, places) : action;

function canonical(view, places) {
  const cards = (list) => list.map((card) => renamed(card, places));
  return { ...view, hand: cards(view.hand), seen: cards(view.seen), out: cards(view.out),
    plays: view.plays.map(({ seat, play }) => ({ seat, play: renamed(play, places) })),
    voids: view.voids.map((suits) => suits.map((suit) => places[suit] ?? suit)) };
}

/** The features of a view: f32[354 + 41 * players]; `places` (of `canonicalSuits`) renames the suits. */
export function features(view, places = PLAIN) {
  const v = canonical(view, places), { plays, setup: { players } } = v, size = dealt(v), left = size - v.tricks;
  const wins = (play) => resolve([...plays, { seat: players, play }], 0).winner === players;
  const winner = plays.length ? resolve(plays, v.leader).winner : -1, { free, suit } = following(plays), beast = lastBeast(plays);
  const need = v.bids.map((bid, seat) => bid === null ? 0 : bid - v.won[seat]);
  const sets = [v.hand, v.hand.filter(wins), v.seen, v.out].map((cards) => new Set(cards));
  const found = sets.flatMap((cards) => CARDS.map((card) => Number(cards.has(card))));
  for (let seat = 0; seat < players; seat++) {
    const play = plays.find((one) => one.seat === seat)?.play ?? -1, plain = play >= 0 && play < 56, known = v.bids[seat] !== null;
    found.push(...oneHot(plain ? suitOf(play) : -1, 4), plain ? (play % 14 + 1) / 14 : 0,
      ...CLASSES.map((is) => Number(play >= 56 && is(play))), ...oneHot(known ? v.bids[seat] : -1, 11),
      ...[0, 1, 2, 3].map((which) => Number(v.voids[seat].includes(which))),
      ...[play >= 0, seat === winner, seat === v.actor, seat === v.leader, known, v.won[seat] / 5, need[seat] / 5,
        need[seat] > 0 && need[seat] <= left, known && need[seat] === 0, v.captured[seat] / 50, v.wagers[seat] / 20,
        seat === v.harry, v.allies.filter((ally) => ally === seat).length, (v.scores[seat] - v.scores[0]) / 100].map(Number));
  }
  found.push(...oneHot(free ? 5 : suit, 6), ...oneHot(size - 1, 10), ...oneHot(v.phase, 6), ...oneHot(plays.length, players),
    ...oneHot(Math.min(Math.max(need[0] + 3, 0), 13), 14), ...oneHot(v.tricks, 10),
    ...[(players - plays.length) * (v.phase === PLAY) / players, left / 10, (need[0] - left) / 10, v.number / 10, v.stock / 74,
      wins(TIGRESS_PIRATE), v.bendtLeft / 2, beast === KRAKEN, beast === WHALE, winner < 0, v.bendtDrawn / 2, v.bendt === 0].map(Number));
  return Float32Array.from(found);
}
