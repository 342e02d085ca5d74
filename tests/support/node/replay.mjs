// Replays recorded games, one JSON object a line on stdin: prints the games that disagree with the rules, then their number.
// Usage: node replay.mjs FOLDER
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { begin, isOver, legalActions, pointsOf, step, toMove } = await import(pathToFileURL(`${process.argv[2]}/rules.js`));
let games = 0, turns = 0;
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const record = JSON.parse(line);
  let game = begin(record.decks, record.start);
  for (const [number, [seat, legal, action, queue, bar, out]] of record.moves.entries()) {
    const found = [toMove(game), legalActions(game.queue, game.hand[toMove(game)]), isOver(game)];
    game = step(game, action);
    found.push(game.queue, game.bar, game.out);
    const wanted = JSON.stringify([seat, legal, false, queue, bar, out]);
    if (JSON.stringify(found) !== wanted) console.log(`game ${record.g}, turn ${number}: ${JSON.stringify(found)}, not ${wanted}`);
    turns++;
  }
  const end = [isOver(game), game.bar.map(pointsOf)];
  if (JSON.stringify(end) !== JSON.stringify([true, record.points])) console.log(`game ${record.g}, end: ${JSON.stringify(end)}`);
  games++;
}
console.log(`${games} games, ${turns} turns`);
