// The person at this browser, and the keys of seats that it was given.

/** A random number of this browser, under which its person is rated. */
export function person() {
  let found = localStorage.getItem("person");
  if (!found) {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    found = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    localStorage.setItem("person", found);
  }
  return found;
}

export const name = () => localStorage.getItem("name") || "";
export const setName = (text) => localStorage.setItem("name", text);

/** Keeps what the server said of a new table: the keys of its seats for people, and the token of its guests. */
export const keepKeys = (table) => localStorage.setItem(`table:${table.id}`, JSON.stringify(table));

export function keysOf(id) {
  try { return JSON.parse(localStorage.getItem(`table:${id}`)) || {}; } catch { return {}; }
}

/** The address of a table; of one of its seats if its key is given. */
export function addressOf(id, key, token) {
  return `/table/${id}${token ? `?token=${encodeURIComponent(token)}` : ""}${key ? `#${key}` : ""}`;
}

const DUELS = (game) => `duels:${game}`;

/** Wins of this person and of the others by opponents' specifications: {spec: [own, theirs]}. */
function duels(game) {
  try { return JSON.parse(localStorage.getItem(DUELS(game))) || {}; } catch { return {}; }
}

/** Counts a finished game of this person's, once. */
export function count(id, { you, game, seats, sides, won }) {
  const table = keysOf(id), found = duels(game);
  if (you == null || table.counted) return;
  keepKeys({ ...table, id, counted: true });
  seats.forEach(({ person, spec }, seat) => {
    if (person || sides[seat] === sides[you] || seats.findIndex((each) => each.spec === spec) < seat) return;
    const lost = seats.some((each, i) => each.spec === spec && won[i] > 0);
    const [own, theirs] = found[spec] || [0, 0];
    found[spec] = [own + (won[you] > 0), theirs + lost];
  });
  localStorage.setItem(DUELS(game), JSON.stringify(found));
}

/** "It has beaten you 3 : 2", of an opponent by its specification; "" before the first win. */
export function told(game, spec) {
  const [own, theirs] = duels(game)[spec] || [0, 0];
  if (own + theirs === 0) return "";
  return own > theirs ? `you have beaten it ${own} : ${theirs}` : theirs > own ? `it has beaten you ${theirs} : ${own}` : `it stands ${own} : ${theirs}`;
}
