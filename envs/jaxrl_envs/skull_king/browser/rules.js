// The rules of Skull King for two to eight seats as pure functions of small arrays; tests replay every recorded game.
//
// Cards are 0 to 73: Parrot, Chest, Map and Roger by number (14 each), then the specials. A play is a card, or
// TIGRESS_PIRATE. A game is { setup: { players, expansion, abilities }, decks (of ten rounds), first (the seat that
// starts round 1), number (the round, from 1), phase, actor, scores, round }; sets of cards are arrays.

export const BID = 0, PLAY = 1, ROSIE = 2, BENDT = 3, ROATAN = 4, HARRY = 5, END = 6, ROUNDS = 10;
export const FIRST_PLAY = 11, PLAY_TIGRESS_PIRATE = 85, FIRST_ROSIE = 86, FIRST_ROATAN = 94, FIRST_HARRY = 97;
export const SUITS = ["Parrot", "Chest", "Map", "Roger"], ROGER = 3, NO_SUIT = 4;
export const TIGRESS = 66, KING = 67, KRAKEN = 70, WHALE = 71, LOOTS = [72, 73], TIGRESS_PIRATE = 74;
const CAPTAIN = { rosie: 61, bendt: 62, roatan: 63, jade: 64, harry: 65 };
const SPECIALS = [...Array(5).fill("Escape"), "Rosie", "Bendt", "Roatan", "Jade", "Harry", "Tigress", "Skull King",
  "Mermaid A", "Mermaid B", "Kraken", "White Whale", "Loot A", "Loot B", "Tigress (pirate)"];

export const suitOf = (play) => Math.min(Math.floor(play / 14), NO_SUIT);
export const isMermaid = (play) => play === 68 || play === 69;
export const isPirate = (play) => play >= CAPTAIN.rosie && play <= CAPTAIN.harry || play === TIGRESS_PIRATE;
export const isBeast = (play) => play === KRAKEN || play === WHALE;
export const isEscape = (play) => play >= 56 && !isMermaid(play) && !isPirate(play) && !isBeast(play) && play !== KING;
export const nameOf = (play) => play < 56 ? `${SUITS[suitOf(play)]} ${play % 14 + 1}` : SPECIALS[play - 56];
export const cardOf = (play) => play === TIGRESS_PIRATE ? TIGRESS : play;
export const dealt = ({ number, setup }) => Math.min(number, setup.players === 8 ? 8 : 10);

// ---- new games ------------------------------------------------------------------------------------------------------

/** A game from the deck orders of ten rounds and the seat that starts round 1. */
export function begin(setup, decks, first) {
  const game = { setup, decks, first, number: 1, actor: first, phase: BID, scores: Array(setup.players).fill(0) };
  return { ...game, round: newRound(game) };
}

/** A game from shuffled decks; `below(n)` draws a whole number from 0 to n - 1. */
export function deal(setup, below) {
  const decks = Array.from({ length: ROUNDS }, () => {
    const deck = Array.from({ length: setup.expansion ? 74 : 70 }, (_, card) => card);
    for (let last = deck.length - 1; last > 0; last--) {
      const other = below(last + 1);
      [deck[last], deck[other]] = [deck[other], deck[last]];
    }
    return deck;
  });
  return begin(setup, decks, below(setup.players));
}

function newRound(game) {
  const { players } = game.setup, deck = game.decks[game.number - 1], size = dealt(game), zeros = () => Array(players).fill(0);
  return {
    leader: (game.first + game.number - 1) % players, tricks: 0,
    plays: [], // of the trick: { seat, play }
    hands: zeros().map((_, seat) => deck.slice(size * seat, size * (seat + 1)).sort((one, other) => one - other)),
    stock: deck.slice(size * players), top: 2, // cards on top of the stock that Bendt would draw
    seen: [], bids: Array(players).fill(null), won: zeros(), captured: zeros(), wagers: zeros(),
    voids: zeros().map(() => []), alliances: [], // [Loot player, trick winner]
    harry: -1, jade: -1, jadeView: [], bendt: -1, bendtDrawn: 0, bendtLeft: 0, discards: [],
  };
}

// ---- tricks ---------------------------------------------------------------------------------------------------------

/** The suit that must be followed, NO_SUIT without one; `free`: the first card has freed all from following. */
export function following(plays) {
  const suited = plays.find(({ play }) => play < 56), opening = plays[0]?.play;
  return { free: opening >= 56 && !isEscape(opening), suit: suited ? suitOf(suited.play) : NO_SUIT };
}

export const lastBeast = (plays) => plays.findLast(({ play }) => isBeast(play))?.play;

/** The trick if it ended now: { winner (-1: none), next (leads the next trick), bonus (points), pirate (that won, or 0) }. */
export function resolve(plays, leader) {
  const earliest = (is) => plays.find(({ play }) => is(play)), number = (is) => plays.filter(({ play }) => is(play)).length;
  const highest = (rank) => plays.reduce((best, one) => rank(one.play) > (best ? rank(best.play) : 0) ? one : best, undefined);
  const { suit } = following(plays), beast = lastBeast(plays);
  const king = earliest((play) => play === KING), mermaid = earliest(isMermaid), pirate = earliest(isPirate);
  const ranked = highest((play) => play >= 56 ? 0 : suitOf(play) === ROGER ? 16 + play : suitOf(play) === suit ? play % 14 + 1 : 0);
  const captured = king ? mermaid || king : pirate || mermaid; // lines 4 to 6 of the specification's section 5
  const calm = captured || ranked || earliest(isEscape);
  const taker = !beast ? calm : beast === WHALE ? highest((play) => play < 56 ? play % 14 + 1 : 0) : undefined;
  const winner = taker ? taker.seat : -1;
  let bonus = plays.reduce((sum, { play }) => sum + (play < 56 && play % 14 === 13 ? suitOf(play) === ROGER ? 20 : 10 : 0), 0);
  if (!beast && captured) {
    if (captured === pirate) bonus += 20 * number(isMermaid);
    else if (captured === king) bonus += 30 * number(isPirate);
    else if (king) bonus += 40;
  }
  return { winner, next: (taker || calm)?.seat ?? leader, bonus: taker ? bonus : 0, pirate: !beast && captured && captured === pirate ? pirate.play : 0 };
}

// ---- questions and steps --------------------------------------------------------------------------------------------

/** The legal actions of the seat to act, ascending. */
export function legalActions(game) {
  const { phase, actor, round, setup } = game, from = (first, count) => Array.from({ length: count }, (_, i) => first + i);
  const bid = round.bids[actor];
  switch (phase) {
    case BID: return from(0, dealt(game) + 1);
    case ROSIE: return from(FIRST_ROSIE, setup.players);
    case ROATAN: return from(FIRST_ROATAN, 3);
    case HARRY: return from(FIRST_HARRY, 3).filter((_, change) => bid + change - 1 >= 0 && bid + change - 1 <= dealt(game));
    case END: return [];
  }
  const hand = round.hands[actor], { free, suit } = following(round.plays);
  const must = phase === PLAY && !free && hand.some((card) => suitOf(card) === suit && card < 56);
  const found = hand.filter((card) => !must || card >= 56 || suitOf(card) === suit).map((card) => FIRST_PLAY + card);
  return phase === PLAY && hand.includes(TIGRESS) ? [...found, PLAY_TIGRESS_PIRATE] : found;
}

/** The game after one legal action, and what it settled: { game, trick (its plays and `resolve`), round (as it was
 * scored, with `points` and `exact` of each seat) }; undefined what it did not settle. */
export function step(before, action) {
  const game = { ...before, scores: [...before.scores], round: structuredClone(before.round) };
  const { round, phase, actor, setup } = game, next = (actor + 1) % setup.players;
  let trick;
  if (phase === BID) {
    round.bids[actor] = action;
    [game.phase, game.actor] = next === round.leader ? [PLAY, round.leader] : [BID, next];
  } else if (phase === PLAY) {
    playCard(round, actor, action === PLAY_TIGRESS_PIRATE ? TIGRESS_PIRATE : action - FIRST_PLAY);
    game.actor = next;
    if (round.plays.length === setup.players) trick = endTrick(game);
  } else if (phase === BENDT) {
    remove(round.hands[actor], action - FIRST_PLAY);
    round.discards.push(action - FIRST_PLAY);
    if (--round.bendtLeft === 0) [game.phase, game.actor] = [PLAY, round.leader];
  } else {
    if (phase === ROSIE) round.leader = (actor + action - FIRST_ROSIE) % setup.players;
    else if (phase === ROATAN) round.wagers[actor] += 10 * (action - FIRST_ROATAN);
    else round.bids[actor] += action - FIRST_HARRY - 1;
    [game.phase, game.actor] = [PLAY, round.leader];
  }
  const over = round.tricks === dealt(game) && game.phase !== HARRY;
  return { game: over ? endRound(game) : game, trick, round: over ? { ...round, ...scored(game) } : undefined };
}

const remove = (cards, card) => cards.splice(cards.indexOf(card), 1);

function playCard(round, seat, play) {
  const { free, suit } = following(round.plays);
  if (!free && suit < NO_SUIT && play < 56 && suitOf(play) !== suit && !round.voids[seat].includes(suit)) round.voids[seat].push(suit);
  remove(round.hands[seat], cardOf(play));
  round.seen.push(cardOf(play));
  round.plays.push({ seat, play });
}

/** Ends a complete trick and begins what its winner may do. */
function endTrick(game) {
  const { round, setup } = game, result = resolve(round.plays, round.leader), { winner, pirate } = result;
  const trick = { plays: round.plays, ...result };
  if (winner >= 0) {
    round.won[winner]++;
    round.captured[winner] += result.bonus;
    for (const { seat, play } of round.plays) if (LOOTS.includes(play) && seat !== winner) round.alliances.push([seat, winner]);
  }
  Object.assign(round, { leader: result.next, tricks: round.tricks + 1, plays: [] });
  [game.phase, game.actor] = [PLAY, round.leader];
  const last = round.tricks === dealt(game);
  if (!setup.abilities) return trick;
  if (pirate === CAPTAIN.harry) round.harry = winner;
  if (last && round.harry >= 0) [game.phase, game.actor] = [HARRY, round.harry];
  if (last || !pirate) return trick;
  const ability = { [CAPTAIN.rosie]: ROSIE, [CAPTAIN.roatan]: ROATAN }[pirate];
  if (ability) [game.phase, game.actor] = [ability, winner];
  if (pirate === CAPTAIN.jade) [round.jade, round.jadeView] = [winner, [...round.stock]];
  const drawn = pirate === CAPTAIN.bendt ? round.stock.splice(0, round.top) : [];
  if (drawn.length) {
    round.top = 0;
    round.hands[winner] = [...round.hands[winner], ...drawn].sort((one, other) => one - other);
    round.voids[winner] = [];
    Object.assign(round, { bendt: winner, bendtDrawn: drawn.length, bendtLeft: drawn.length });
    [game.phase, game.actor] = [BENDT, winner];
  }
  return trick;
}

/** Points of each seat for a finished round, and who bid exactly. */
function scored({ round, number, setup }) {
  const hand = dealt({ number, setup }), exact = round.bids.map((bid, seat) => bid === round.won[seat]);
  const points = round.bids.map((bid, seat) => {
    const hit = bid === 0 ? 10 * hand : 20 * bid + round.captured[seat];
    const miss = bid === 0 ? -10 * hand : -10 * Math.abs(round.won[seat] - bid);
    return exact[seat] ? hit + round.wagers[seat] : miss - round.wagers[seat];
  });
  for (const pair of round.alliances) if (pair.every((seat) => exact[seat])) for (const seat of pair) points[seat] += 20;
  return { points, exact };
}

function endRound(game) {
  const { points } = scored(game), scores = game.scores.map((score, seat) => score + points[seat]);
  if (game.number === ROUNDS) return { ...game, scores, phase: END };
  const following = { ...game, scores, number: game.number + 1, phase: BID };
  const round = newRound(following);
  return { ...following, round, actor: round.leader };
}

// ---- what a seat may know -------------------------------------------------------------------------------------------

/** What one seat may know. Seats are relative: 0 is the observer, 1 the next one, and so on; -1 stands for no seat. */
export function view(game, seat) {
  const { round, setup, phase } = game, n = setup.players, relative = (one) => one < 0 ? -1 : (one - seat + n) % n;
  const turned = (values) => values.map((_, i) => values[(seat + i) % n]);
  return {
    setup, number: game.number, phase, actor: relative(game.actor), leader: relative(round.leader), tricks: round.tricks,
    hand: round.hands[seat], sizes: turned(round.hands).map((hand) => hand.length), seen: round.seen,
    out: [...(round.bendt === seat ? round.discards : []), ...(round.jade === seat ? round.jadeView : [])],
    plays: round.plays.map(({ seat: whose, play }) => ({ seat: relative(whose), play })),
    bids: turned(round.bids).map((bid, i) => phase === BID && i ? null : bid), made: turned(round.bids).map((bid) => bid !== null),
    won: turned(round.won), captured: turned(round.captured), wagers: turned(round.wagers), voids: turned(round.voids),
    allies: round.alliances.filter((pair) => pair.includes(seat)).map(([one, other]) => relative(one === seat ? other : one)),
    scores: turned(game.scores), stock: round.stock.length,
    harry: relative(round.harry), bendt: relative(round.bendt), bendtDrawn: round.bendtDrawn, bendtLeft: round.bendtLeft,
  };
}

/** The place of each seat, equal ones sharing the better. */
export const ranks = (scores) => scores.map((score) => 1 + scores.filter((other) => other > score).length);
