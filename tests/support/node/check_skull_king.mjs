// For each game of Skull King on stdin ({setup, decks, first, actions}): what the seat to act feeds the network before each
// action, what the network answers, and the legal actions. Usage: node check_skull_king.mjs FOLDER
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(`${process.argv[2]}/${name}`));
const [{ BID, begin, legalActions, step, view }, { canonicalSuits, features, renamedAction }, { readNetwork }] =
  await Promise.all(["rules.js", "features.js", "network.js"].map(load));

/** The game with what `seat` cannot see changed: the others' cards and the stock dealt anew, bids made face down too. */
function redealt(game, seat) {
  const { round, actor, phase } = game, hands = [...round.hands], looked = round.jade === seat, bids = [...round.bids];
  const stock = looked ? [] : round.stock, hidden = [...hands.flatMap((hand, whose) => whose === seat ? [] : hand), ...stock].reverse();
  for (let whose = 0; whose < hands.length; whose++) {
    if (whose === seat) continue;
    hands[whose] = hidden.splice(0, hands[whose].length);
    if (phase === BID && bids[whose] !== null) bids[whose] = (bids[whose] + 1) % (game.number + 1);
  }
  return { ...game, actor, round: { ...round, hands, bids, stock: looked ? round.stock : hidden } };
}

const file = readFileSync(`${process.argv[2]}/policy.bin`);
const network = readNetwork(file.buffer.slice(file.byteOffset, file.byteOffset + file.length));
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const { setup, decks, first, actions } = JSON.parse(line), found = [];
  let game = begin(setup, decks, first);
  for (const action of actions) {
    const { actor } = game, seen = view(game, actor), places = canonicalSuits(seen), read = features(seen, places), legal = legalActions(game);
    const known = legal.map((one) => renamedAction(one, places)), { logits, value } = network.evaluate(read, known);
    const secret = JSON.stringify(view(redealt(game, actor), actor)) === JSON.stringify(seen);
    found.push({ features: [...read], legal, logits: known.map((one) => logits.get(one)), value, secret });
    game = step(game, action).game;
  }
  console.log(JSON.stringify(found));
}
