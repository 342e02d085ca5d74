// What the network reads of one seat's view (`rules.view`): 150 numbers of the table, and 256 of what each action would
// do to it this turn. Nothing hidden goes in. Tests compare every number with the trained policy's own features.

import { POINTS, count, legalActions, playTurn, pointsOf, seatOf, strengthOf } from "./rules.js";

export const COMPACT = 150;
const IDS = 32; // one more than there are actions
const WORTH = [0.53, 0.37, 0.25, 0.27]; // of the places of the queue

/** The features of a view: f32[150], or f32[406] with the effects of the actions. */
export function features(view, size) {
  const compact = [
    view.hand, view.deck, view.unseen, view.bar[0], view.bar[1], view.out[0], view.out[1],
  ].flatMap((mask) => POINTS.map((_, i) => mask >> i & 1));
  for (let place = 0; place < 4; place++) {
    const card = view.queue[place], here = card !== undefined;
    compact.push(...POINTS.map((_, i) => Number(here && strengthOf(card) === i + 1)));
    compact.push(Number(here && seatOf(card) === 0), Number(here && seatOf(card) === 1));
  }
  compact.push(count(view.hand) / 4, view.otherHand / 4, count(view.deck) / 8, view.otherDeck / 8,
    view.queue.length / 4, view.ply / 24, pointsOf(view.bar[0]) / 36, pointsOf(view.bar[1]) / 36,
    Number(view.toMove), Number(view.started));
  return Float32Array.from(size === COMPACT ? compact : [...compact, ...effects(view)]);
}

/** By action id, 0 for illegal ones: points that enter the bar (own, other), are thrown out (own, other) and weigh in the
 * queue by place, change in the value of the queue, an own card at place 1 or 2, legal. */
function effects(view) {
  const columns = Array.from({ length: 8 }, () => new Array(IDS).fill(0)), before = worth(view.queue);
  for (const action of legalActions(view.queue, view.hand)) {
    const after = playTurn(view, 0, action);
    const added = (zone, seat) => (pointsOf(after[zone][seat]) - pointsOf(view[zone][seat])) / 8;
    const front = after.queue.reduce((sum, card, place) => sum + (1 - place / after.queue.length) * signed(card, 1), 0);
    const ahead = Number(after.queue.slice(0, 2).some((card) => seatOf(card) === 0));
    const values = [added("bar", 0), added("bar", 1), added("out", 0), added("out", 1), front / 8,
      (worth(after.queue) - before) / 4, ahead, 1];
    values.forEach((value, column) => { columns[column][action] = value; });
  }
  return columns.flat();
}

const signed = (card, other) => (seatOf(card) ? -other : 1) * POINTS[strengthOf(card) - 1];

const worth = (queue) => queue.reduce((sum, card, place) => sum + WORTH[place] * signed(card, 0.6), 0);
