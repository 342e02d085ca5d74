// Replays recorded games and single tricks of Skull King, one JSON object a line on stdin: prints what disagrees with the
// rules, then how much there was. Usage: node replay_skull_king.mjs FOLDER
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { HARRY, PLAY, TIGRESS, TIGRESS_PIRATE, LOOTS, begin, cardOf, dealt, legalActions, ranks, resolve, step } =
  await import(pathToFileURL(`${process.argv[2]}/rules.js`));
const counts = { games: 0, decisions: 0, tricks: 0 };
const played = ({ seat, play }) => [seat, cardOf(play), Number(play === TIGRESS_PIRATE)];
const pairs = (list) => [...list].sort();

function compare(where, found, wanted) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) console.log(`${where}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
}

function single(record) {
  const plays = record.plays.map(([play, pirate], seat) => ({ seat, play: pirate ? TIGRESS_PIRATE : play }));
  const { winner, next, bonus } = resolve(plays, 0);
  const ally = plays.filter(({ seat, play }) => winner >= 0 && LOOTS.includes(play) && seat !== winner).map(({ seat }) => [seat, winner]);
  compare(JSON.stringify(record.plays), [winner, next, bonus, pairs(ally)], [record.win, record.next, record.bonus, pairs(record.ally)]);
  counts.tricks++;
}

function whole(record) {
  const setup = { players: record.n, expansion: record.expansion === 1, abilities: record.abilities === 1 };
  let game = begin(setup, record.decks, record.first);
  for (const entry of record.rounds) {
    const where = `game ${record.game}, round ${entry.r}`, tricks = [], head = [game.number, dealt(game), game.actor];
    compare(where, head, [entry.r, entry.h, entry.starter]);
    let bids, harry = [], settled, leads;
    for (const [seat, phase, legal, action] of entry.dec) {
      compare(where, [game.actor, game.phase, legalActions(game)], [seat, phase, legal]);
      if (phase === PLAY && game.round.plays.length === 0) leads = seat, bids ||= [...game.round.bids];
      if (phase === PLAY && tricks.length && game.round.plays.length === 0) tricks.at(-1).next = seat; // Rosie may have named it
      const allied = game.round.alliances.length, after = step(game, action), round = after.round || after.game.round;
      if (after.trick) {
        const { plays, winner, bonus } = after.trick;
        tricks.push({ lead: leads, plays: plays.map(played), win: winner, next: -1, bonus, ally: pairs(round.alliances.slice(allied)) });
      }
      if (phase === HARRY) harry = [seat, round.bids[seat] - bids[seat]];
      [game, settled] = [after.game, after.round];
      counts.decisions++;
    }
    const { won, captured, wagers, alliances, exact, points } = settled;
    compare(where, { ...entry, bids, harry, eff: settled.bids, won, bonus: captured, bet: wagers, ally: pairs(alliances),
      exact: exact.map(Number), scores: points, total: game.scores, tricks }, { ...entry, ally: pairs(entry.ally),
      tricks: entry.tricks.map((trick) => ({ ...trick, ally: pairs(trick.ally) })) });
  }
  compare(`game ${record.game}`, [game.phase, game.scores, ranks(game.scores)], [6, record.final, record.rank]);
  counts.games++;
}

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const record = JSON.parse(line);
  record.rounds ? whole(record) : single(record);
}
console.log(Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", "));
