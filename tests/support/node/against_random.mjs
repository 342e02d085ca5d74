// Plays games of Skull King, the network in one seat and random play in the others: its wins (shared ones by part), points a
// game and exact bids a round, with half the width of their 95 % intervals. Usage: node against_random.mjs FOLDER GAMES
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(`${process.argv[2]}/${name}`));
const [{ END, ROUNDS, deal, legalActions, ranks, step, view }, { canonicalSuits, features, renamedAction }, { greedy, readNetwork }] =
  await Promise.all(["rules.js", "features.js", "network.js"].map(load));
const file = readFileSync(`${process.argv[2]}/policy.bin`);
const network = readNetwork(file.buffer.slice(file.byteOffset, file.byteOffset + file.length));
let seed = 1;
const below = (n) => { // a linear congruential generator: the same games every time
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor(seed / 2 ** 32 * n);
};

function best(game) {
  const seen = view(game, game.actor), places = canonicalSuits(seen), known = new Map(legalActions(game).map((one) => [renamedAction(one, places), one]));
  return known.get(greedy(network.evaluate(features(seen, places), [...known.keys()]).logits));
}

const games = Number(process.argv[3]), figures = { wins: [], points: [], exact: [] };
for (let number = 0; number < games; number++) {
  const me = number % 4;
  let game = deal({ players: 4, expansion: true, abilities: true }, below), exact = 0;
  while (game.phase !== END) {
    const legal = legalActions(game), done = step(game, game.actor === me ? best(game) : legal[below(legal.length)]);
    if (done.round?.exact[me]) exact++;
    game = done.game;
  }
  const places = ranks(game.scores);
  figures.wins.push(places[me] === 1 ? 1 / places.filter((place) => place === 1).length : 0);
  figures.points.push(game.scores[me]);
  figures.exact.push(exact / ROUNDS);
}
for (const [name, values] of Object.entries(figures)) {
  const mean = values.reduce((sum, value) => sum + value, 0) / games, spread = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / games);
  console.log(`${name} ${mean.toFixed(4)} ± ${(1.96 * spread / Math.sqrt(games)).toFixed(4)}`);
}
