// Shared by all pages: the head of the page, requests, small helpers for elements.

const SVG = "http://www.w3.org/2000/svg";
const PAGES = [["/", "Play"], ["/drive", "Drive"], ["/replays", "Replays"], ["/runs", "Runs"]];

/** An element: tag, attributes (functions are listeners; style is an object), children (texts are set as text, never as
 * markup). */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "style") for (const each of Object.entries(value)) element.style.setProperty(...each);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

/** An element of a drawing: tag and attributes. */
export function draw(tag, attributes = {}) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** A drawing of a game as an element: without scripts, frames, listeners and foreign addresses; `words` may put
 * other words into its lines. */
export function drawing(text, words = (line) => line) {
  const svg = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  for (const element of [svg, ...svg.querySelectorAll("*")]) {
    if (element.namespaceURI !== SVG || /^(script|foreignObject)$/i.test(element.localName)) element.remove();
    for (const { name, value } of [...element.attributes]) {
      if (/^on/i.test(name) || /href$/i.test(name) && !/^(#|data:image\/)/.test(value)) element.removeAttribute(name);
      if (name === "style") element.style.cssText = value; // which the policy allows, unlike the attribute
    }
    if (element.localName === "text" && !element.childElementCount) reword(element, words);
  }
  return svg;
}

/** Puts other words into a line of a drawing; a line that becomes much longer gets smaller. */
function reword(line, words) {
  const before = line.textContent, after = words(before), size = +line.getAttribute("font-size");
  if (after === before) return;
  line.textContent = after;
  const most = Math.max(9, before.length + 3);
  if (size && before.length < 20 && after.length > most) line.setAttribute("font-size", size * Math.max(0.6, most / after.length));
}

/** A text with `commands` as children for `make`. */
export const marked = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

/** The paragraphs of a text that blank lines divide. */
export const paragraphs = (text) => text.trim().split(/\n\s*\n/).map((each) => make("p", {}, marked(each)));

/** The same for places that hold text alone. */
export const plain = (text) => text.replaceAll("`", "");

/** The element with this id. */
export const at = (id) => document.getElementById(id);

/** JSON from the server; its sentence is thrown where it refuses. */
export async function ask(path, body) {
  const more = body === undefined ? {} : {
    method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" },
  };
  const answer = await fetch(path, more);
  const text = await answer.text();
  let found;
  try { found = JSON.parse(text); } catch { found = { error: text || `the server says ${answer.status}` }; }
  if (!answer.ok) throw new Error(plain(found.error || "") || `the server says ${answer.status}`);
  return found;
}

/** Resolves after some milliseconds. */
export const wait = (time) => new Promise((done) => setTimeout(done, time));

/** The address of a websocket of this server. */
export const socketAt = (path) => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;

/** Whether this browser was invited to this table, and may go nowhere else. */
export const isGuest = () => "guest" in document.documentElement.dataset;

/** Draws the head of a page; `current` is the path of its entry. */
export function head(current) {
  const root = document.documentElement, chosen = localStorage.getItem("theme");
  if (chosen) root.dataset.theme = chosen;
  const toggle = () => {
    const theme = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  };
  document.body.prepend(make("header", { class: "top" },
    make("strong", {}, isGuest() ? "jaxrl" : make("a", { href: "/" }, "jaxrl")),
    isGuest() ? "" : make("nav", { "aria-label": "pages" }, PAGES.map(([path, name]) =>
      make("a", { href: path, "aria-current": path === current && "page" }, name))),
    make("span", { class: "space" }),
    make("button", { class: "quiet", click: toggle, "aria-label": "dark or light" }, "◐")));
}
