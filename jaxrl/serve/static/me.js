// Who sits before this browser, and the seats that it was given keys of.

/** A number of this browser by which its person is rated. */
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
