// For each game on stdin ({decks, first, actions}): what the seat to move feeds the network before each action, what
// the network answers, and the legal actions. Usage: node check_network.mjs FOLDER
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(`${process.argv[2]}/${name}`));
const [{ begin, bit, legalActions, species, step, toMove, view }, { features }, { readNetwork }] = await Promise.all(["rules.js", "features.js", "network.js"].map(load));

/** The game with what `seat` cannot see changed: both decks upside down, the other's hand exchanged for cards of its deck. */
function redrawn(game, seat) {
  const other = 1 - seat, unseen = [...game.deck[other], ...species(game.hand[other])], hand = [...game.hand];
  hand[other] = unseen.splice(0, species(hand[other]).length).reduce((mask, strength) => mask | bit(strength), 0);
  const deck = [0, 1].map((whose) => whose === other ? unseen : [...game.deck[seat]].reverse());
  return { ...game, hand, deck };
}

const file = readFileSync(`${process.argv[2]}/policy.bin`);
const network = readNetwork(file.buffer.slice(file.byteOffset, file.byteOffset + file.length));
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const { decks, first, actions } = JSON.parse(line), found = [];
  let game = begin(decks, first);
  for (const action of actions) {
    const seen = view(game, toMove(game)), read = features(seen, network.settings.features);
    const { logits, value } = network.evaluate(read, legalActions(seen.queue, seen.hand));
    const same = JSON.stringify(view(redrawn(game, toMove(game)), toMove(game))) === JSON.stringify(seen);
    found.push({ features: [...read], legal: [...logits.keys()], logits: [...logits.values()], value, secret: same });
    game = step(game, action);
  }
  console.log(JSON.stringify(found));
}
