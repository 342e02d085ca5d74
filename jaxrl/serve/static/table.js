// The page of a table, or of two with the same deal: board, legal actions, story.

import { ask, at, draw, drawing, head, isGuest, make, marked, paragraphs, socketAt } from "./common.js";
import * as me from "./me.js";
import { christened, counted, named, percent, verdict } from "./words.js";

const HELD = 1500; // milliseconds that what a step settles stays on the board, such as a full trick
const MANY = 16; // actions that have room below the board; the list of a game with more stands beside it
const tall = matchMedia("(max-width: 640px) and (orientation: portrait)"), flat = matchMedia("(max-height: 500px)");
const PACES = [[0, "at once"], [0.4, "0.4 s, fast"], [1, "1 s"], [2.5, "2.5 s, slow"]];

class TableView {
  /** Draws a table into `root` and keeps talking to the server; `key` takes a seat, without one it looks on. */
  constructor(root, id, key, { quiet = false } = {}) {
    Object.assign(this, { id, token: key, quiet, shown: null, lines: [], chosen: null, wait: 500, typed: "" });
    this.onView = () => {};
    this.invitations = () => ({});
    this.build(root);
    this.connect();
    tall.addEventListener("change", () => this.send({ do: "turn", upright: tall.matches }));
  }

  build(root) {
    this.board = make("div", { class: "board", role: "img", "aria-label": "the board" });
    this.words = make("div", { class: "unseen", "aria-live": "polite", "aria-label": "the table in words", role: "region" });
    this.state = make("div", { class: "state", role: "status" });
    this.actions = make("div", { class: "actions", role: "group", "aria-label": "what you can do" });
    this.problem = make("p", { class: "error", role: "alert" });
    this.bar = make("div", { class: "row bar" });
    this.advice = make("div", { class: "advice", "aria-live": "polite" });
    this.seats = make("ul", { class: "people", "aria-label": "seats" });
    this.story = make("ol", { class: "story", "aria-label": "the story of the game", tabindex: "0" });
    this.scores = make("div", { class: "scores", hidden: true });
    this.rules = make("details", { hidden: true });
    this.end = make("div", { class: "end", hidden: true });
    this.element = make("section", { class: "table" },
      make("div", { class: "left" }, make("div", { class: "frame" }, this.board, this.end), this.words),
      make("div", { class: "do" }, this.state, this.actions, this.problem, this.bar),
      make("aside", { class: "right" }, this.advice, this.seats, this.scores, make("h2", {}, "Story"), make("div", { role: "log" }, this.story), this.rules));
    root.append(this.element);
  }

  // ---- the connection to the server ---------------------------------------------------------------------------------------

  connect() {
    this.socket = new WebSocket(socketAt(`/api/tables/${this.id}/socket`));
    this.socket.onopen = () => {
      this.wait = 500;
      this.lines = [];
      this.send({ key: this.token, name: me.name(), person: me.person(), upright: tall.matches });
    };
    this.socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    this.socket.onclose = (event) => {
      if (event.code === 4404 || event.code === 1008) return this.tell(event.reason || "there is no such table");
      this.say("The connection is lost; trying again …");
      this.element.classList.add("lost");
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(5000, this.wait * 1.6);
    };
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  receive(message) {
    if (message.kind === "error") return this.tell(message.text);
    if (message.kind === "doing") return this.showDoing(message.text);
    if (message.kind === "hint") return message.at === this.shown?.time && this.showDecision(message, message.name);
    this.element.classList.remove("lost");
    this.showView(message);
    this.onView(message);
  }

  /** Shows an error; an answer that was waited for does not come. */
  tell(text) {
    this.problem.replaceChildren(...marked(text));
    if (this.advice.querySelector(".doing")) this.clearAdvice();
    if (this.shown?.legal?.length) this.showActions();
  }

  showDoing(text) {
    this.clearAdvice();
    this.advice.append(make("p", { class: "dim doing" }, text));
  }

  say(text, asked = false) {
    this.state.replaceChildren(...marked(text));
    this.state.classList.toggle("asked", asked);
  }

  // ---- what the server shows ----------------------------------------------------------------------------------------

  showView(view) {
    const moved = !this.shown || this.shown.time !== view.time || this.shown.over !== view.over;
    const settled = this.shown && view.settled?.time > this.shown.time;
    this.shown = view;
    this.names = christened(view.seats, view.you);
    this.next = view.board ?? this.next; // it is sent where it changes
    if (settled) this.hold(view.settled.board);
    else if (view.board && !this.held) this.draw(view.board);
    else if (!this.next && view.text) {
      this.board.replaceChildren(make("pre", {}, this.named(view.text)));
      this.board.tabIndex = 0; // it may have to be scrolled
    }
    if (moved && view.text && (view.legal.length || view.over)) {
      this.words.replaceChildren(...this.named(view.text).split("\n").filter(Boolean).map((line) => make("p", {}, line)));
    }
    if (view.story) this.tellStory(view.story);
    if (view.rules) {
      this.rules.hidden = false;
      this.rules.replaceChildren(make("summary", {}, "How it is played"), ...paragraphs(view.rules));
    }
    if (view.scores) this.showScores(view);
    if (moved) {
      this.chosen = null;
      this.problem.textContent = "";
      if (!view.decision) this.clearAdvice();
    }
    if (view.decision) this.showDecision(view.decision, view.decision.name, view.decision.seat);
    this.showSeats(view);
    this.showState(view);
    if (moved || !this.bar.childElementCount || view.paused !== this.wasPaused) this.showBar(view);
    this.wasPaused = view.paused;
    if (moved) this.showActions();
    this.showEnd(view);
  }

  /** A text of the game with the players' names. */
  named(text) {
    return named(text, this.names, this.shown.sides);
  }

  draw(text) {
    const svg = drawing(text, (line) => this.named(line));
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    svg.setAttribute("aria-hidden", "true");
    this.overlay = draw("svg", { viewBox: svg.getAttribute("viewBox"), class: "overlay" });
    const before = this.places(), first = !this.board.childElementCount;
    this.board.replaceChildren(make("div", { class: "sheet" }, svg, this.overlay));
    this.move(before, svg);
    if (first && flat.matches && !this.quiet) this.element.scrollIntoView();
  }

  /** The places of the drawing's cards by name, in pixels of the board. */
  places() {
    const { left, top } = this.board.getBoundingClientRect();
    return new Map([...this.board.querySelectorAll("[data-card]")].map((card) => {
      const box = card.getBoundingClientRect();
      return [card.dataset.card, [box.left - left + box.width / 2, box.top - top + box.height / 2]];
    }));
  }

  /** Lets cards that lay elsewhere in the drawing before move to their places, and new ones appear (style.css). */
  move(before, svg) {
    if (!before.size || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const after = this.places(), scale = svg.viewBox.baseVal.width / svg.clientWidth;
    const moved = [];
    for (const card of svg.querySelectorAll("[data-card]")) {
      const from = before.get(card.dataset.card), to = after.get(card.dataset.card);
      if (!from) card.classList.add("new");
      else if (Math.hypot(from[0] - to[0], from[1] - to[1]) > 4) {
        card.style.translate = `${(from[0] - to[0]) * scale}px ${(from[1] - to[1]) * scale}px`;
        moved.push(card);
      }
    }
    svg.getBoundingClientRect(); // so that the browser has seen them where they were
    for (const card of moved) {
      card.classList.add("moving");
      card.style.translate = "0 0";
    }
  }

  /** Shows what a step has settled for a moment, after what is held already: of several that wait the newest. */
  hold(board) {
    if (this.held) {
      this.waiting = board;
      return;
    }
    this.waiting = null;
    this.draw(board);
    this.board.dataset.held = "";
    this.held = setTimeout(() => {
      this.held = null;
      if (this.waiting) return this.hold(this.waiting);
      delete this.board.dataset.held;
      this.draw(this.next);
      this.showAreas();
      this.showEnd(this.shown);
    }, HELD);
  }

  showState(view) {
    if (view.trouble) return this.say(view.trouble);
    if (view.opening) return this.say("The table is being laid: the first time takes a while …");
    if (view.hidden) return this.say("People play here: you see their cards when the game is over.");
    if (view.over) return this.say("The game is over.");
    if (view.legal.length) return this.say("It is your turn.", true);
    const doing = view.doing ? `: ${view.doing}` : " to move";
    this.say(view.paused ? "Paused." : `${view.asked.length > 1 ? "All" : this.names[view.asked[0]]}${doing} …`);
  }

  showSeats(view) {
    const keys = this.invitations();
    this.seats.replaceChildren(...view.seats.map((seat, number) => {
      const asked = (view.asked || []).includes(number);
      const key = seat.person && number !== view.you && (keys.keys || [])[number];
      const link = key && location.origin + me.addressOf(this.id, key, keys.guest);
      const copy = link && make("button", { class: "quiet", "data-link": link, title: link, click: async (event) => {
        await navigator.clipboard?.writeText(link).catch(() => prompt("The link of this seat:", link));
        event.target.textContent = "copied";
      } }, "copy invitation");
      const what = number === view.you ? me.name() : seat.person ? (seat.here ? "here" : "not here") : this.names[number] === seat.name ? "" : seat.name;
      return make("li", { class: [asked && "asked", seat.here || "away"].filter((each) => typeof each === "string").join(" ") },
        make("span", { class: "name", title: seat.person ? "" : seat.spec }, this.names[number]),
        make("span", { class: "dim" }, what), copy || null);
    }));
  }

  /** The score sheet: a line for each part of the game that has ended, the newest first, below their sum. */
  showScores(view) {
    this.scores.hidden = !view.scores.length;
    const seats = view.seats.map((_, seat) => seat);
    const total = (seat) => view.scores.reduce((sum, each) => sum + each.points[seat], 0);
    const plain = (number) => String(Number(number.toFixed(2))).replace("-", "−");
    const cell = (points, note) => make("td", { class: "number" }, plain(points), note
      ? make("small", {}, note.replaceAll(" ", "\u00a0").replaceAll(",\u00a0", ", ")) : null); // breaks at commas alone
    this.scores.replaceChildren(make("h2", {}, "Points"), make("div", { class: "scroll" }, make("table", {},
      make("tr", {}, make("th"), seats.map((seat) => make("th", { class: "number" }, this.names[seat]))),
      make("tr", { class: "total" }, make("td", {}, "all"), seats.map((seat) => cell(total(seat)))),
      [...view.scores].reverse().map((each) => make("tr", {}, make("td", {}, each.part),
        seats.map((seat) => cell(each.points[seat], each.notes[seat])))))));
  }

  tellStory(story) {
    const old = this.lines.length;
    this.lines.length = Math.min(this.lines.length, story.from);
    this.lines.push(...story.lines);
    const fresh = old && old === story.from; // only new lines are read aloud; a new connection tells all again
    if (old === this.lines.length && !story.lines.length) return;
    const near = this.story.scrollTop + this.story.clientHeight >= this.story.scrollHeight - 40;
    const lines = (fresh ? story.lines : this.lines).slice(-200).filter(Boolean).map((line) => make("li", {}, this.named(line)));
    if (fresh) this.story.append(...lines);
    else this.story.replaceChildren(...lines);
    while (this.story.childElementCount > 200) this.story.firstChild.remove();
    if (near) this.story.scrollTop = this.story.scrollHeight;
  }

  showDecision(decision, name, seat) {
    if (!decision.by) return;
    const most = Math.max(...decision.likely.map(([, share]) => share), 0.001);
    const results = new Map(decision.results);
    const rows = decision.likely.map(([action, share]) => make("tr", { class: action === name && "best" },
      make("td", {}, action), make("td", { class: "bar" }, make("i", { style: { width: `${(100 * share) / most}%` } })),
      make("td", { class: "number" }, percent(share)),
      results.size ? make("td", { class: "number" }, results.get(action) || "") : null));
    const who = seat == null ? `${decision.by} would choose ` : `${this.names[seat]}: `;
    const value = decision.value && `, expects: ${decision.value}`;
    this.advice.classList.add("panel");
    this.advice.replaceChildren(make("p", {}, who, make("strong", {}, name), value,
      decision.note ? make("span", { class: "dim" }, ` (${decision.note})`) : ""),
      rows.length > 1 ? make("table", { class: "odds" }, rows) : "");
  }

  clearAdvice() {
    this.advice.replaceChildren();
    this.advice.classList.remove("panel");
  }

  // ---- what people can do -------------------------------------------------------------------------------------------

  showActions() {
    const { legal = [] } = this.shown;
    if (legal.length > MANY) this.element.classList.add("many");
    const hadFocus = this.actions.contains(document.activeElement) || document.activeElement === document.body ||
      this.board.contains(document.activeElement);
    const offered = this.chosen ? legal.filter(([action]) => this.chosen.includes(action)) : legal;
    const buttons = offered.map(([action, name, note], index) => make("button", {
      class: "action", "data-action": action, click: () => this.play(action),
      pointerenter: () => this.point(action), pointerleave: () => this.point(null),
    }, index < 9 ? make("kbd", {}, String(index + 1)) : null, name,
      note ? make("small", {}, this.named(note)) : null));
    if (this.chosen) {
      buttons.push(make("button", { class: "quiet", click: () => { this.chosen = null; this.showActions(); } }, "back"));
    }
    this.actions.replaceChildren(...buttons);
    if (hadFocus && buttons.length && !this.quiet) buttons[0].focus({ preventScroll: true });
    this.showAreas();
  }

  showAreas() {
    if (!this.overlay || this.held || this.element.querySelector(".action:disabled")) return;
    const areas = this.shown.click_areas || [];
    this.overlay.replaceChildren(...areas.map(([x, y, width, height, actions]) => this.clickArea(x, y, width, height, actions)));
    const room = this.board.scrollWidth - this.board.clientWidth;
    if (!areas.length || room <= 0) return; // a large drawing on a small screen: to what it is about
    const middle = areas.reduce((sum, [x, , width]) => sum + x + width / 2, 0) / areas.length;
    this.board.scrollLeft = (this.board.scrollWidth * middle) / this.overlay.viewBox.baseVal.width - this.board.clientWidth / 2;
  }

  clickArea(x, y, width, height, actions) {
    const names = this.shown.legal.filter(([action]) => actions.includes(action)).map(([, name]) => name).join(", ");
    const rect = draw("rect", { x, y, width, height, rx: 8, role: "button", "aria-label": names });
    rect.dataset.actions = actions.join(" ");
    rect.addEventListener("click", () => {
      if (actions.length === 1) return this.play(actions[0]);
      this.chosen = actions;
      this.showActions();
    });
    const buttons = () => this.actions.querySelectorAll(actions.map((each) => `[data-action="${each}"]`).join());
    for (const [event, on] of [["pointerenter", true], ["pointerleave", false]]) {
      rect.addEventListener(event, () => buttons().forEach((button) => button.classList.toggle("meant", on)));
    }
    rect.append(Object.assign(draw("title"), { textContent: names }));
    return rect;
  }

  /** Marks the areas of the board that stand for an action. */
  point(action) {
    for (const rect of this.overlay?.children || []) rect.classList.toggle("meant", rect.dataset.actions.split(" ").includes(String(action)));
  }

  play(action) {
    this.send({ do: "play", action, at: this.shown.time });
    for (const button of this.actions.querySelectorAll("button")) button.disabled = true;
    this.overlay?.replaceChildren();
  }

  showBar(view) {
    const button = (words, key, click, more = {}) =>
      make("button", { click, title: key ? `key ${key}` : "", ...more }, words);
    const mine = view.you != null && !view.over && !view.opening;
    const parts = [];
    if (mine) {
      const off = { disabled: !view.legal?.length };
      parts.push(button("Hint", "h", () => this.hint("policy"), off), button("Search", "s", () => this.hint("search"), off));
      if (view.undo) parts.push(button("Undo", "u", () => this.send({ do: "undo" }), { disabled: !view.time }));
    }
    if (view.watch && !view.over) {
      parts.push(button(view.paused ? "Go on" : "Pause", "space", () => this.send({ do: view.paused ? "go" : "pause" })),
        button("Step", ".", () => this.send({ do: "one" })));
    }
    if ((mine || view.watch) && !view.over) {
      const pace = make("select", { "aria-label": "pace of the agents", change: (event) =>
        this.send({ do: "pace", seconds: Number(event.target.value) }) },
        PACES.map(([seconds, words]) => make("option", { value: seconds, selected: seconds === view.pace }, words)));
      parts.push(make("label", { class: "dim" }, make("span", { class: "words" }, "pace "), pace));
    }
    this.bar.replaceChildren(...parts);
  }

  hint(by) {
    this.problem.textContent = "";
    this.showDoing(by === "search" ? "searching …" : "asking …");
    this.send({ do: "hint", by });
  }

  /** The end of the game as a scene over the board: who won, by how much, and what can be done now. */
  showEnd(view) {
    this.end.hidden = !view.over || view.hidden || this.held;
    if (!view.over) return this.end.replaceChildren();
    if (this.end.hidden || this.end.childElementCount) return;
    me.count(this.id, view);
    const rivals = view.you == null ? [] : [...new Set(view.seats.filter((seat) => !seat.person).map((seat) => seat.spec))];
    const scores = rivals.map((spec) => [rivals.length > 1 ? `${spec}: ` : "", me.told(view.game, spec)]).filter(([, score]) => score);
    const done = make("span", { class: "dim" });
    const again = async () => {
      const table = await ask("/api/tables", { game: view.game, options: view.options, person: me.person(),
        seats: view.seats.map((seat) => seat.spec), pace: view.pace });
      me.keepKeys(table);
      location.href = me.addressOf(table.id, table.keys[view.you] || table.keys.find(Boolean));
    };
    const keep = async () => {
      done.textContent = "making the replay …";
      const { file } = await ask(`/api/tables/${this.id}/keep`, {});
      if (file) location.href = `/replays/view?file=${encodeURIComponent(file)}${view.you == null ? "" : `&seat=${view.you}`}`;
      else done.textContent = "kept in the folder of the tables";
    };
    const guarded = (work) => () => work().catch((error) => this.tell(error.message));
    this.end.replaceChildren(make("div", { class: "scene panel", role: "dialog", "aria-label": "the end of the game" },
      make("h2", {}, verdict(view, this.names)), this.standing(view),
      scores.map((score) => make("p", { class: "dim" }, ...score)),
      make("div", { class: "row" },
        isGuest() ? "" : make("button", { class: "main", click: guarded(again) }, view.watch ? "Another game" : "Play again"),
        isGuest() ? "" : make("button", { click: guarded(keep) }, view.you == null ? "Watch the replay" : "Watch the replay and your costliest decisions"),
        make("a", { href: `/api/tables/${this.id}/replay`, download: true }, "replay file"),
        make("button", { class: "quiet aside", click: () => this.end.classList.add("aside") }, "see the table"), done)));
    this.end.scrollIntoView({ block: "nearest" });
  }

  /** The players, the best first, with a bar each. */
  standing(view) {
    const { unit, values } = counted(view);
    const more = Object.keys(view.figures || {}).slice(1);
    const order = values.map((_, seat) => seat).sort((a, b) => view.won[b] - view.won[a] || values[b] - values[a]);
    const [low, high] = [Math.min(0, ...values), Math.max(...values)];
    const cell = (value) => make("td", { class: "number" }, String(Number(value.toFixed(3))).replace("-", "−"));
    const head = (name) => make("th", { class: "number" }, name.replaceAll("_", " "));
    const rows = order.map((seat) => make("tr", { class: [view.won[seat] > 0 && "won", seat === view.you && "you"].filter(Boolean).join(" ") },
      make("td", {}, this.names[seat]),
      make("td", { class: "bar" }, make("i", { style: { width: `${(100 * (values[seat] - low)) / (high - low || 1)}%` } })),
      cell(values[seat])));
    const all = more.length > 0 && make("details", {}, make("summary", {}, "more figures"), make("div", { class: "scroll" }, make("table", {},
      make("tr", {}, make("th"), more.map(head)),
      order.map((seat) => make("tr", {}, make("td", {}, this.names[seat]), more.map((name) => cell(view.figures[name][seat])))))));
    return make("div", {}, make("table", { class: "standing" }, make("tr", {}, make("th"), make("th"), head(unit)), rows), all || null);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.shown) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const buttons = [...this.actions.querySelectorAll("button")];
    const digit = Number(event.key);
    if (digit >= 1 && buttons[digit - 1]) buttons[digit - 1].click();
    else if (/^Arrow/.test(event.key) && buttons.length) this.moveFocus(buttons, /Right|Down/.test(event.key) ? 1 : -1);
    else if (event.key === "Escape" && this.chosen) { this.chosen = null; this.showActions(); }
    else if (event.key === "h" && this.shown.legal?.length) this.hint("policy");
    else if (event.key === "s" && this.shown.legal?.length) this.hint("search");
    else if (event.key === "u" && this.shown.undo) this.send({ do: "undo" });
    else if (event.key === " " && this.shown.watch) this.send({ do: this.shown.paused ? "go" : "pause" });
    else if (event.key === "." && this.shown.watch) this.send({ do: "one" });
    else return;
    event.preventDefault();
  }

  moveFocus(buttons, by) {
    const now = buttons.indexOf(document.activeElement);
    buttons[(now + by + buttons.length) % buttons.length].focus();
  }
}

head("/");
const id = location.pathname.split("/").pop();
const main = at("main");
const view = new TableView(main, id, decodeURIComponent(location.hash.slice(1)));
let second = null;
view.onView = (shown) => {
  document.title = `${shown.legal?.length ? "● " : ""}${shown.title} – jaxrl`;
  if (!shown.beside || second) return;
  second = new TableView(main, shown.beside, "", { quiet: true });
  main.classList.add("pair");
};
document.addEventListener("keydown", (event) => view.key(event));
addEventListener("hashchange", () => location.reload());
view.invitations = () => me.keysOf(id);
