// Evaluations of a run: win matrices, results by seat, and the game's other figures.
import { make } from "./common.js";
import { percent, short } from "./words.js";

const MANY_DRAWS = 0.5; // share of games from which on the return says more than wins

/** A cell of a win matrix. */
function cell(row, fair) {
  const outcomes = row?.outcomes;
  if (!outcomes) return make("td", { class: "number dim" }, row ? short(row.figures?.return?.mean) : "–");
  const [low, high] = outcomes.win_rate_95;
  const [large, small] = outcomes.draw_rate > MANY_DRAWS && row.figures?.return
    ? [`return ${short(row.figures.return.mean)}`, `wins ${percent(outcomes.win_rate)}`]
    : [percent(outcomes.win_rate), `${percent(low)} – ${percent(high)}`];
  return make("td", { class: "win", style: tint(outcomes.win_rate, fair), title: `${outcomes.wins} of ${outcomes.games}, ${percent(outcomes.draw_rate)} drawn` },
    make("b", {}, large), make("small", {}, small));
}

/** The style of a win rate: the greener above, the redder below that among equal players, which neither older records tell
 * nor those of games in which several sides can win. */
export function tint(rate, fair) {
  const even = fair || 0.5;
  return rate >= even ? { "--share": (rate - even) / (1 - even || 1), "--tint": "var(--good)" } : { "--share": (even - rate) / even, "--tint": "var(--warn)" };
}

/** The win matrix of one evaluation: policies by opponents. */
function matrix(record) {
  const rows = record.rows || [];
  const opponents = [...new Set(rows.map((row) => row.opponent))];
  const candidates = [...new Set(rows.map((row) => row.candidate))];
  const { fair } = record;
  const find = (candidate, opponent) => rows.find((row) => row.candidate === candidate && row.opponent === opponent);
  return make("div", { class: "scroll" }, make("table", { class: "matrix" },
    make("thead", {}, make("tr", {}, make("th", {}, "wins against", fair && fair < 0.5 ? make("small", {}, ` (fair ${percent(fair)})`) : null), opponents.map((each) => make("th", {}, each)))),
    make("tbody", {}, candidates.map((candidate) => make("tr", {}, make("th", { scope: "row" }, candidate), opponents.map((each) => cell(find(candidate, each), fair)))))));
}

function seats(record) {
  const rows = (record.rows || []).filter((row) => row.outcomes?.by_seat?.length > 1);
  if (!rows.length) return null;
  const count = rows[0].outcomes.by_seat.length;
  return make("details", {}, make("summary", {}, "by seat"), make("div", { class: "scroll" }, make("table", { class: "matrix" },
    make("thead", {}, make("tr", {}, make("th", {}, "against"), Array.from({ length: count }, (_, seat) => make("th", {}, `seat ${seat}`)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, make("th", { scope: "row" }, `${row.candidate} – ${row.opponent}`), row.outcomes.by_seat.map((each) => cell({ outcomes: each }, record.fair))))))));
}

function figures(record) {
  const rows = record.rows || [];
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.figures || {})))];
  const told = (each) => (each ? `${short(each.mean)}${each.half_width_95 ? ` ± ${short(each.half_width_95)}` : ""}` : "–");
  return make("details", {}, make("summary", {}, "all figures"), make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, make("th", {}, "against"), names.map((name) => make("th", { class: "number" }, name)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, make("td", {}, row.opponent), names.map((name) => make("td", { class: "number" }, told(row.figures?.[name])))))))));
}

const about = (record) => [`update ${record.update}`, record.policy, record.search && `search ${typeof record.search === "string" ? record.search : record.search.algorithm || ""}`,
  `seed ${record.seed}`].filter(Boolean).join(", ");

/** The newest evaluation of a run's status in words. */
export function evaluated({ evaluation: found }) {
  if (!found) return "";
  return "win_rate" in found ? `wins ${percent(found.win_rate)}${found.fair < 0.5 ? `, fair ${percent(found.fair)}` : ""}` : `return ${short(found.return)}`;
}

/** The sections of all evaluations, the newest first. */
export function evaluations(records, exploited) {
  const newest = records.toReversed();
  const found = newest.slice(0, 1).map((record) => make("section", { class: "panel" }, make("h2", {}, "Evaluation ", make("small", { class: "dim" }, about(record))),
    matrix(record), record.winning ? make("p", { class: "dim" }, record.winning) : "", seats(record), figures(record)));
  if (newest.length > 1) {
    found.push(make("details", { class: "panel" }, make("summary", {}, `${newest.length - 1} earlier evaluation${newest.length > 2 ? "s" : ""}`),
      newest.slice(1).map((record) => make("div", {}, make("h3", { class: "dim" }, about(record)), matrix(record)))));
  }
  if (exploited.length) {
    found.push(make("details", { class: "panel" }, make("summary", {}, "Best responses"),
      make("pre", { class: "config" }, JSON.stringify(exploited, null, 2))));
  }
  return found;
}
