// Driving by hand: sends keys and gamepad to the server, shows its frames in three dimensions.
import { ask, at, head, make, socketAt } from "./common.js";
import { numbered } from "./words.js";

const LAG = 0.03, WATCHED = 0.1; // seconds that the picture is behind the newest frame, so that there is one to move towards; of a recorded match
const KEEP = 300; // frames that the ball's trail and the replay of a goal may need
const DEAD = 0.15; // of a stick, where it rests
const AGAIN = 100; // milliseconds after which the server is told the same controls once more
const COMPILING = "Your match is being compiled: some twenty seconds for the first of its kind. Meanwhile, a recorded one.";
const [BODY, FIRST] = [8, 4]; // numbers of a body in a frame, and before the bodies

let offers = [], socket, told, stage, status = {}, seen = 0, offset = -Infinity, tanks = [], burning = [], tries = 0;
let sent = { text: "", at: 0 }, pressed = false, starting = false, drawn = [], counting, waiting = "", since = 0, telling;
let kickoffs, goal, again, stick = [0, 0]; // number of kickoffs; time of the last goal; when its replay began; how the stick is pushed
const held = new Set();

// ---- who drives against whom ----------------------------------------------------------------------------------------

const match = make("select", { id: "match", change: () => offerSeats() });
const mine = make("select", { id: "mine", change: () => offerSeats() });
const others = make("div", { class: "seats" });

/** Fills the form; the names of matches are there before the players of their seats are known. */
function offer(found) {
  const before = match.selectedOptions[0]?.textContent;
  offers = found;
  match.replaceChildren(...offers.map((each, i) => make("option", { value: i }, `${each.game.replaceAll("_", " ")}, ${each.match}`)));
  match.value = Math.max(0, [...match.options].findIndex((each) => each.textContent === before));
  at("begin").disabled = starting || !offers.length;
  if (!offers.length) return say("No game of this server can be driven.");
  offerSeats();
}

function offerSeats() {
  const found = offers[match.value];
  mine.parentElement.querySelector("[for=mine]").hidden = mine.hidden = !found.sides;
  if (!found.sides) return others.replaceChildren(make("p", { class: "dim" }, "against its usual opponent (the other players are being listed …)"));
  const own = Math.min(+mine.value || 0, found.sides.length - 1);
  mine.replaceChildren(...found.sides.map((side, seat) => make("option", { value: seat }, `player ${seat + 1}, side ${side + 1}`)));
  mine.value = own;
  others.replaceChildren(...found.sides.flatMap((side, seat) => seat === own ? [] : [make("label", {},
    make("span", {}, side === found.sides[own] ? "with you" : "against you"),
    make("select", { "data-seat": seat }, found.players.map(([spec, words]) => make("option", { value: spec }, words))))]));
}

async function begin() {
  const found = offers[match.value];
  const seats = found.sides?.map((_, seat) => others.querySelector(`[data-seat="${seat}"]`)?.value || "person");
  at("begin").disabled = starting = true; // a second click would make a second match
  try {
    location.hash = (await ask("/api/drive", { game: found.game, match: found.match, seats })).id;
    tries = 0;
    connect();
  } catch (error) {
    say(error.message);
  }
  at("begin").disabled = starting = false;
}

// ---- what the server says -------------------------------------------------------------------------------------------

async function connect() {
  at("setup").hidden = true;
  at("match-view").hidden = false;
  document.activeElement.blur(); // keys are the match's from here on
  status = {};
  wait("Waiting for the server …");
  let Space;
  try { ({ Space } = await import("./space.js")); } catch (error) { return retire(error.message); }
  if (socket) {
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }
  socket = new WebSocket(socketAt(`/api/drive/${location.hash.slice(1)}`));
  socket.binaryType = "arraybuffer";
  socket.onopen = () => socket.send("{}");
  // no frame may overtake the head: whatever is heard is dealt with at once
  socket.onmessage = ({ data }) => typeof data === "string" ? hear(JSON.parse(data), Space) : frame(new Float32Array(data));
  socket.onclose = (event) => {
    if (event.code < 4000 && event.code !== 1008 && tries++ < 5) return setTimeout(connect, 1000);
    retire(event.reason || "the match has ended");
  };
}

/** Back to the choice of a match. */
function retire(words) {
  history.replaceState(null, "", location.pathname);
  held.clear();
  count(0);
  wait("");
  at("match-view").hidden = true;
  at("setup").hidden = false;
  say(words);
}

function hear(message, Space) {
  if (message.kind === "head") {
    told = message;
    since = performance.now() - 1000 * told.waited;
    at("keys").textContent = `${told.words} B: camera at the ball or ahead; P: pause; C: free camera.`;
    for (const button of told.buttons) told.keys[button] = { [button]: 1 }; // those of the touch screen
    at("presses").replaceChildren(...told.buttons.map(press));
    at("names").replaceChildren(...numbered(told.names).map((name, seat) => make("span", { class: `seat seat${seat % 8}` }, name)));
    [seen, tanks, burning] = [0, [], []];
    clear();
    show({ space: told.space, seconds: 1, curves: {} }, Space);
    if (told.watched.length) watch(0);
  } else if (message.kind === "status") {
    if (message.ready && "ready" in status && message.kickoff !== status.kickoff) message.goal ? replay() : count(told.countdown);
    status = message;
    tries = 0;
    at("score").textContent = status.text;
    at("pause").textContent = status.paused ? "Go on (P)" : "Pause (P)";
    wait(status.ready ? "" : COMPILING);
    say(waiting ? "" : status.over ? "The match is over." : status.paused ? "Pause" : "");
  } else if (message.kind === "error") say(message.text);
}

function show(scene, Space) {
  if (stage) stage.load(scene);
  else {
    stage = new Space(scene);
    stage.burns = (seat) => burning[seat];
    at("stage").replaceChildren(stage.element);
    at("camera").replaceChildren(stage.controls);
  }
  const own = told.space.bodies[told.seat + 1].name;
  stage.views = [own, "free"]; // what another driver sees is not shown
  for (const button of [...stage.controls.children]) {
    if (!stage.views.includes(button.dataset.view)) button.remove();
    else if (button.dataset.view === own) button.textContent = "your car";
  }
  stage.follow(own);
}

/** Shows what the match waits for in the place of the view and the buttons; "": it waits for nothing. */
function wait(text) {
  if (text && !waiting) since = performance.now();
  const begins = waiting && !text;
  if (begins && stage) stage.follow(stage.views[0]);
  waiting = text;
  at("match-view").classList.toggle("waiting", !!text);
  if (!text) at("match-view").classList.remove("watching");
  if (begins) at("match-view").scrollIntoView();
  for (const button of at("match-view").querySelectorAll(".side button")) button.disabled = !!text;
  at("waiting-for").textContent = text;
  if (text) tellWaiting();
}

/** Shows the next moment of a recorded match while one's own is compiled, again and again. */
function watch(number) {
  const rows = told.watched, now = rows[number], next = rows[number + 1];
  if (!waiting || seen) return;
  at("match-view").classList.add("watching");
  if (!number) stage.follow(told.space.bodies[0].name);
  frame([0, ...now]);
  setTimeout(watch, next ? 1000 * (next[0] - now[0]) : 2000, next ? number + 1 : 0);
}

function tellWaiting() {
  clearTimeout(telling);
  at("seconds").textContent = `${Math.round((performance.now() - since) / 1000)} s`;
  if (waiting) telling = setTimeout(tellWaiting, 1000);
}

const say = (text) => { at("said").textContent = text; };

function count(seconds) {
  clearTimeout(counting);
  at("countdown").textContent = seconds > 0 ? Math.ceil(seconds) : "";
  if (seconds > 0) counting = setTimeout(() => count(seconds - 1), 1000);
}

/** Shows the last seconds before a goal once more, from where the ball is seen, and counts down after them. */
function replay() {
  again = performance.now();
  stage.follow(told.space.bodies[0].name);
  at("countdown").replaceChildren(make("small", {}, "replay"));
  clearTimeout(counting);
  counting = setTimeout(() => {
    again = null;
    stage.follow(stage.views[0]);
    count(told.countdown);
  }, 1000 * told.replay);
}

function clear() {
  const { space } = told;
  for (const { places, turns, gone = [] } of space.bodies) places.length = turns.length = gone.length = 0;
  for (const list of [space.times, ...space.spots.map((spot) => spot.there)]) list.length = 0;
  offset = -Infinity;
  if (again) stage.follow(stage.views[0]);
  kickoffs = goal = again = null;
}

function frame(row) {
  seen = row[0];
  const { space } = told;
  const { times } = space;
  if (row[1] < times.at(-1)) clear();
  if (row[2] !== kickoffs) [kickoffs, goal] = [row[2], times.at(-1)];
  times.push(row[1]);
  space.bodies.forEach((body, i) => {
    const from = FIRST + BODY * i;
    body.places.push(...row.slice(from, from + 3));
    body.turns.push(...row.slice(from + 3, from + 7));
    body.gone?.push(row[from + 7] > 0);
  });
  const rest = FIRST + BODY * space.bodies.length;
  const now = [...row.slice(rest, rest + told.names.length)];
  burning = now.map((tank, seat) => tank < tanks[seat] - 0.1);
  tanks = now;
  space.spots.forEach((spot, i) => spot.there.push(row[rest + now.length + i] > 0));
  if (times.length > KEEP) {
    times.shift();
    for (const body of space.bodies) [body.places.splice(0, 3), body.turns.splice(0, 4), body.gone?.shift()];
    for (const spot of space.spots) spot.there.shift();
  }
  offset = Math.max(offset - 0.0005, row[1] - performance.now() / 1000);
  if (row[1] - performance.now() / 1000 < offset - 0.25) offset = row[1] - performance.now() / 1000; // play stood still
}

// ---- what the person does -------------------------------------------------------------------------------------------

function controls() {
  const names = [...told.axes, ...told.buttons];
  const sum = Object.fromEntries(names.map((name) => [name, 0]));
  const add = (parts, share) => { for (const name in parts) sum[name] += parts[name] * share; };
  for (const code of held) add(told.keys[code], 1);
  stick.forEach((value, i) => add(told.gamepad[`axis${i}`], value));
  add(told.gamepad[stick[1] < 0 ? "button7" : "button6"], Math.abs(stick[1]));
  const pad = navigator.getGamepads?.().find((each) => each);
  if (pad) {
    pad.axes.forEach((value, i) => { if (Math.abs(value) > DEAD) add(told.gamepad[`axis${i}`], value); });
    pad.buttons.forEach((button, i) => add(told.gamepad[`button${i}`], button.value));
    if (pad.buttons[9]?.pressed && !pressed) pause();
    pressed = pad.buttons[9]?.pressed;
  }
  const axes = told.axes.map((name) => Math.round(100 * Math.max(-1, Math.min(1, sum[name]))) / 100);
  return [...axes, ...told.buttons.map((name) => +(sum[name] > 0.5))];
}

const send = (message) => { if (socket?.readyState === 1) socket.send(JSON.stringify(message)); };
const pause = (on = !status.paused) => send({ pause: on });

function draw(milliseconds) {
  requestAnimationFrame(draw);
  if (!stage || at("match-view").hidden) return;
  const text = JSON.stringify(controls());
  const since = milliseconds - sent.at;
  if (since > AGAIN || (text !== sent.text && since > 15)) {
    send({ controls: JSON.parse(text), seen });
    sent = { text, at: milliseconds };
  }
  if (!told?.space.times.length) return;
  stage.place = again ? goal + Math.min(0, (performance.now() - again) / 1000 - told.replay)
    : Math.min(told.space.times.at(-1), performance.now() / 1000 + offset - (waiting ? WATCHED : LAG));
  stage.render();
  if (waiting) return;
  drawn = [...drawn.filter((time) => time > milliseconds - 1000), milliseconds];
  const own = told.space.bodies[told.seat + 1];
  at("stage").dataset.own = own.places.slice(-3).map(Math.round).join();
  at("stage").dataset.drawn = drawn.length;
  at("stage").dataset.seen = seen;
  at("tank").value = at("boost").textContent = Math.round(tanks[told.seat]);
  point();
}

/** Points to the ball where the picture does not show it. */
function point() {
  const { x, y, z } = stage.bodies[0].group.position.clone().project(stage.eye), behind = z > 1;
  at("arrow").hidden = !behind && Math.abs(x) < 1 && Math.abs(y) < 1;
  at("arrow").style.rotate = `${Math.atan2(x, y) + (behind ? Math.PI : 0)}rad`;
}

/** Turns the camera behind the car to the ball, or ahead. */
function turn() {
  stage.ahead = !stage.ahead;
  at("ball").setAttribute("aria-pressed", !stage.ahead);
}

// ---- a touch screen -------------------------------------------------------------------------------------------------

function push(event) {
  const box = event.currentTarget.getBoundingClientRect(), { clientX, clientY, type } = event;
  const part = (value, from, long) => Math.max(-1, Math.min(1, (2 * (value - from)) / long - 1));
  if (type === "pointermove" && !event.currentTarget.hasPointerCapture(event.pointerId)) return;
  if (type === "pointerdown") event.currentTarget.setPointerCapture(event.pointerId);
  stick = /down|move/.test(type) ? [part(clientX, box.left, box.width), part(clientY, box.top, box.height)] : [0, 0];
  event.currentTarget.style.setProperty("--push", stick.map((value) => `${28 * value}px`).join(" "));
}

const press = (name) => make("button", { "data-press": name, pointerdown: () => held.add(name), pointerup: () => held.delete(name),
  pointercancel: () => held.delete(name), pointerleave: () => held.delete(name) }, name);

addEventListener("keydown", (event) => {
  const busy = event.target.closest?.(event.code === "Space" ? "select, button" : "select"); // it presses a button that has the focus
  if (!stage || at("match-view").hidden || event.ctrlKey || event.metaKey || event.altKey || busy) return;
  if (told.keys[event.code]) {
    held.add(event.code);
    event.preventDefault();
  } else if (event.code === "KeyP" && !event.repeat && !waiting) pause();
  else if (event.code === "KeyB" && !event.repeat && !waiting) turn();
});
addEventListener("keyup", (event) => held.delete(event.code));
addEventListener("blur", () => held.clear());
document.addEventListener("visibilitychange", () => { if (document.hidden) pause(true); });

head("/drive");
at("main").append(
  make("h1", {}, "Drive"),
  make("section", { class: "panel", id: "setup", "aria-label": "a new match" },
    make("div", { class: "row" }, make("label", { for: "match" }, "Match"), match, make("label", { for: "mine" }, "You"), mine),
    others,
    make("button", { class: "main", id: "begin", disabled: true, click: begin }, "Drive")),
  make("p", { id: "said", role: "status" }),
  make("div", { class: "theatre", id: "match-view", hidden: true, click: (event) => event.detail && document.activeElement.blur() },
    make("div", { class: "show" }, make("div", { class: "driven" }, make("div", { id: "stage" }), make("output", { id: "countdown" }),
      make("p", { id: "score", "aria-live": "off" }), make("span", { id: "arrow", "aria-hidden": "true", hidden: true }, "▲"),
      make("p", { id: "tank-of" }, "boost ", make("meter", { id: "tank", min: 0, max: 100, "aria-label": "boost" }), " ",
        make("output", { id: "boost", "aria-live": "off" })),
      make("div", { id: "touch", hidden: !matchMedia("(pointer: coarse)").matches },
        make("div", { id: "stick", role: "img", "aria-label": "stick: steer, forwards, back",
          pointerdown: push, pointermove: push, pointerup: push, pointercancel: push }),
        make("div", { id: "presses" })),
      make("div", { id: "waiting", role: "status" }, make("span", { class: "spinner" }),
        make("p", { id: "waiting-for" }),
        make("output", { id: "seconds", "aria-live": "off" })))),
    make("aside", { class: "panel side" },
      make("div", { id: "names", class: "row seats" }), make("div", { id: "camera" }),
      make("div", { class: "row" },
        make("button", { id: "pause", click: () => pause() }, "Pause (P)"),
        make("button", { id: "ball", "aria-pressed": "true", click: turn }, "Ball camera (B)"),
        make("button", { click: () => document.querySelector(".driven").requestFullscreen?.() }, "Full screen"),
        make("button", { id: "again", click: () => send({ again: true }) }, "A new match")),
      make("p", { id: "keys", class: "dim" }))));
ask("/api/drive/names").then((found) => offers.length || offer(found)).catch(() => {});
ask("/api/drive").then(offer).catch((error) => say(error.message));
if (location.hash.length > 1) connect();
requestAnimationFrame(draw);
