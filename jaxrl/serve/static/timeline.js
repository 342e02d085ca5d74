// A timeline: curves of the seats, signs where something happened, and the buttons that move along it.
import { draw, make } from "./common.js";
import { clock } from "./words.js";

const HIGH = 84; // of the curves, in pixels
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
const ICONS = { // paths in a box of 24
  first: "M5 5h2.5v14H5zM19 5v14L8.5 12z", back: "M16.5 5v14L6.5 12z", play: "M7 4.5v15L20 12z", pause: "M6 5h4v14H6zM14 5h4v14h-4z",
  on: "M7.5 5v14l10-7z", last: "M16.5 5H19v14h-2.5zM5 5v14l10.5-7z",
};
const STILL = 1.1; // seconds for which a turn stands

function icon(name) {
  const svg = draw("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" });
  svg.append(draw("path", { d: ICONS[name] }));
  return svg;
}

/** A path through the values of a seat, at most one point a pixel. */
function pathOf(values, x, y, width) {
  const step = Math.max(1, Math.floor(values.length / Math.max(width, 1)));
  let path = "";
  for (let i = 0; i < values.length; i += step) path += `${path ? "L" : "M"}${x(i).toFixed(1)} ${y(values[i]).toFixed(1)}`;
  const last = values.length - 1;
  return `${path}L${x(last).toFixed(1)} ${y(values[last]).toFixed(1)}`;
}

export class Timeline {
  /** `show(place)` is called with every new place, in frames. */
  constructor(show) {
    this.show = show;
    this.place = 0;
    this.playing = false;
    this.speed = 1;
    this.svg = draw("svg", { class: "curves", role: "presentation", preserveAspectRatio: "none" });
    this.which = make("select", { "aria-label": "curve", change: () => this.redraw() });
    this.range = make("input", { type: "range", min: 0, step: 1, value: 0, "aria-label": "moment",
      input: () => this.seek(+this.range.value) });
    this.label = make("output", { class: "dim" });
    const button = (name, label, act) => make("button", { class: "quiet", click: act, "aria-label": label, title: label }, icon(name));
    this.toggle = button("play", "play or pause (space)", () => this.play(!this.playing));
    const pace = make("select", { "aria-label": "speed", change: () => { this.speed = +pace.value; } },
      SPEEDS.map((speed) => make("option", { value: speed, selected: speed === 1 }, `${speed}×`)));
    this.pace = pace;
    this.buttons = make("div", { class: "row transport" },
      button("first", "first moment (home)", () => this.seek(0)),
      button("back", "step back (left)", () => this.step(-1)), this.toggle,
      button("on", "step forward (right)", () => this.step(1)),
      button("last", "last moment (end)", () => this.seek(this.frames - 1)), pace, this.label);
    this.element = make("div", { class: "timeline panel" }, this.which, this.svg, this.range, this.buttons);
    this.svg.addEventListener("pointerdown", (event) => this.point(event, true));
    this.svg.addEventListener("pointermove", (event) => event.buttons && this.point(event));
    new ResizeObserver(() => this.redraw()).observe(this.svg);
    addEventListener("keydown", (event) => this.key(event));
  }

  /** Loads a recording's head, see `Playback.record`. */
  load(head) {
    this.frames = Math.max(1, head.frames);
    this.seconds = head.seconds;
    this.moments = head.moments;
    this.marks = head.moments.filter((moment) => moment.mark);
    this.offer(head.curves, "value");
    this.range.max = this.frames - 1;
    this.pace.value = "1";
    this.seek(Math.min(this.place, this.frames - 1));
  }

  /** Draws one of these curves, of which others can be chosen. */
  offer(curves, chosen) {
    this.curves = curves;
    this.which.replaceChildren(...Object.keys(curves).map((name) => make("option", { value: name, selected: name === chosen }, name)));
    this.which.hidden = this.which.options.length < 2;
    this.redraw();
  }

  /** Shows a policy's values of the seats and the decisions that it doubts: {values, doubts: [{at, words}]}, or null. */
  judge(found) {
    const name = "value, as judged";
    const { [name]: _, ...others } = this.curves;
    this.doubts = found ? found.doubts : [];
    this.offer(found ? { ...others, [name]: found.values } : others, name);
  }

  redraw() {
    const width = this.svg.clientWidth || 600;
    const values = this.curves?.[this.which.value] || [];
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HIGH}`);
    this.svg.classList.toggle("bare", values.length < 2);
    const x = (frame) => 8 + (width - 16) * frame / Math.max(1, (this.frames || 1) - 1);
    this.x = x;
    const parts = (this.marks || []).map((moment) => {
      const line = draw("path", { d: `M${x(moment.at)} 0V${HIGH}`, class: "mark" });
      line.append(Object.assign(draw("title"), { textContent: moment.mark }));
      return line;
    });
    for (const doubt of this.doubts || []) {
      const sign = draw("circle", { cx: x(doubt.at), cy: HIGH - 5, r: 4, class: "doubt" });
      sign.append(Object.assign(draw("title"), { textContent: doubt.words }));
      parts.push(sign);
    }
    if (values.length > 1) parts.push(...this.drawn(values, x, width));
    this.hand = draw("path", { class: "hand" });
    this.svg.replaceChildren(...parts, this.hand);
    this.moveHand();
  }

  drawn(values, x, width) {
    const flat = values.flat().filter(Number.isFinite);
    const low = flat.reduce((least, each) => Math.min(least, each), 0), high = flat.reduce((most, each) => Math.max(most, each), 0);
    const y = (value) => 8 + (HIGH - 16) * (high - value) / (high - low || 1);
    const zero = draw("path", { d: `M0 ${y(0)}H${width}`, class: "zero" });
    return [zero, ...values[0].map((first, seat) => first === null ? "" :
      draw("path", { d: pathOf(values.map((row) => row[seat] ?? 0), x, y, width), class: `line seat${seat % 8}` }))];
  }

  moveHand() {
    const at = this.x(this.place);
    this.hand.setAttribute("d", `M${at} 0V${HIGH}M${at - 5} 0H${at + 5}L${at} 7Z`);
  }

  point(event, grab) {
    if (grab) this.svg.setPointerCapture(event.pointerId);
    const box = this.svg.getBoundingClientRect();
    this.seek(Math.round((event.clientX - box.left - 8) / (box.width - 16) * (this.frames - 1)));
  }

  /** Moves to a place, in frames; between two of them only while it plays. */
  seek(place) {
    this.place = Math.min(Math.max(0, place), this.frames - 1);
    const frame = Math.floor(this.place);
    this.range.value = frame;
    const time = (frame) => clock(frame * this.seconds);
    this.label.textContent = this.seconds
      ? `${time(this.place)} / ${time(this.frames - 1)}` : `${frame} / ${this.frames - 1}`;
    this.range.setAttribute("aria-valuetext", this.label.textContent);
    this.moveHand();
    this.show(this.place);
  }

  step(by) {
    this.play(false);
    this.seek(Math.round(this.place) + by);
  }

  /** Moves to the next sign, or the one before. */
  jump(way) {
    const places = [...this.marks, ...(this.doubts || [])].map((moment) => moment.at).sort((a, b) => a - b);
    const found = way > 0 ? places.find((place) => place > this.place) : places.findLast((place) => place < Math.floor(this.place));
    this.seek(found ?? (way > 0 ? this.frames - 1 : 0));
  }

  play(on) {
    if (on && this.place >= this.frames - 1) this.seek(0);
    this.playing = on;
    this.toggle.replaceChildren(icon(on ? "pause" : "play"));
    if (!on) return;
    let last = performance.now();
    const beat = (now) => {
      if (!this.playing) return;
      this.seek(this.place + Math.min(0.25, (now - last) / 1000) * this.speed / (this.seconds || STILL));
      last = now;
      if (this.place >= this.frames - 1) this.play(false);
      else requestAnimationFrame(beat);
    };
    requestAnimationFrame(beat);
  }

  key(event) {
    const busy = event.target.closest?.("input:not([type=range]), select, textarea") || event.ctrlKey || event.metaKey || event.altKey;
    if (busy || (event.key === " " && event.target.closest?.("button, a"))) return;
    const far = event.shiftKey ? 10 : 1;
    const acts = {
      " ": () => this.play(!this.playing), ArrowLeft: () => this.step(-far), ArrowRight: () => this.step(far),
      ArrowUp: () => this.jump(-1), ArrowDown: () => this.jump(1), Home: () => this.seek(0), End: () => this.seek(this.frames - 1),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }
}
