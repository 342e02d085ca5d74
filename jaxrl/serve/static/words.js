// Numbers and times in words.

/** 12345 -> "12.3 kB". */
export function bytes(number) {
  for (const [limit, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (number >= limit) return `${(number / limit).toPrecision(3)} ${unit}`;
  }
  return `${number} bytes`;
}

/** 12345 -> "12.3k"; "–" for missing and infinite values. */
export function short(number) {
  if (typeof number !== "number" || !Number.isFinite(number)) return "–";
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(number) >= limit) return `${+(number / limit).toPrecision(3)}${unit}`;
  }
  return `${+number.toPrecision(3)}`;
}

/** 0.5 -> "+0.50". */
export const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(2);

/** A share as a percentage. */
export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");

/** Seconds -> "1:02:05". */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** How long ago a time (seconds since 1970) was. */
export function since(time) {
  const seconds = Date.now() / 1000 - time;
  for (const [limit, name] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
    const count = Math.floor(seconds / limit);
    if (count >= 1) return `${count} ${name}${count > 1 ? "s" : ""} ago`;
  }
  return "just now";
}

/** Names of players, with numbers behind those that occur more than once: "Zoo policy 1", "Zoo policy 2". */
export function numbered(names) {
  const seen = {};
  const count = (name) => { seen[name] = (seen[name] || 0) + 1; return seen[name]; };
  return names.map((name) => (names.filter((each) => each === name).length > 1 ? `${name} ${count(name)}` : name));
}

const CREW = ["Anne", "Jack", "Mary", "Henry", "Grace", "Bart", "Stede"];

/** Names of the players at a table, seen from seat `you`, with first names for agents that occur more than once. */
export function christened(seats, you) {
  const names = seats.map(({ name }, seat) => (seat === you ? "You" : name)), free = CREW.filter((name) => !names.includes(name));
  const twice = (name) => names.filter((each) => each === name).length > 1;
  return numbered(names.map((name, seat) => (!seats[seat].person && twice(name) && free.shift()) || name));
}

/** Puts the names of players into a text of a game, which calls them "seat 1", or "side 1" where each side is one seat.
 * "You" becomes "you" within a sentence. */
export function named(text, names, sides = []) {
  const apart = new Set(sides).size === sides.length;
  return text.replace(/\b(seat|side) (\d+)\b/gi, (call, what, number) => {
    const name = names[number];
    if (!name || (/side/i.test(what) && !apart)) return call;
    return name === "You" && /^s/.test(what) ? "you" : name;
  });
}

/** The unit of a finished game's result and its value for every seat: the first of its figures, else the return. */
export function counted({ figures, returns }) {
  const [name, values] = Object.entries(figures || {})[0] || ["return", returns];
  return { unit: name.length < 3 ? name.toUpperCase() : name.replaceAll("_", " "), values: values.map((value) => Number(value.toFixed(3))) };
}

/** Who won a finished game and by how much: "You win by 40 points", or `beaten`: "You beat 3 × zoo:skull_king by 40 points". */
export function verdict(game, names, beaten) {
  const { unit, values } = counted(game), seats = values.map((_, seat) => seat);
  const [winners, losers, drawn] = [1, -1, 0].map((result) => seats.filter((seat) => game.won[seat] === result));
  const called = (some) => {
    const own = some.map((seat) => names[seat]);
    return list([...new Set(own)].map((name) => { const count = own.filter((each) => each === name).length; return count > 1 ? `${count} × ${name}` : name; }));
  };
  if (!winners.length) return drawn.length ? `A draw: ${called(drawn)}` : "The game is over";
  const best = (some) => Math.max(...some.map((seat) => values[seat]));
  const ahead = Number((best(winners) - best(losers)).toFixed(3));
  const ends = winners.length === 1 && names[winners[0]] !== "You" ? "s" : "";
  return `${called(winners)} ${beaten && losers.length ? `beat${ends} ${called(losers).replace(/^You\b/, "you")}` : `win${ends}`}`
    + (ahead > 0 && ahead < Infinity && unit !== "return" ? ` by ${ahead} ${unit}` : "");
}

/** A list in words: "Anna, Ben and Zoo policy". */
export const list = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
