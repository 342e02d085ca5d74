// Curves of a training: means with their intervals, single seeds behind them, and the values at the pointer.
import { draw, make } from "./common.js";
import { short } from "./words.js";

const FEW = 40; // points of a curve that are marked
const HIGH = 170, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 22;

/** About `count` round numbers between two others. */
function ticks(low, high, about) {
  const raw = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) found.push(+value.toPrecision(12));
  return found;
}

/** An exponentially weighted mean, as TensorBoard has it; gaps stay gaps. */
function smoothed(values, weight) {
  let [sum, mass] = [0, 0];
  return values.map((value) => {
    if (value == null) return null;
    [sum, mass] = [sum * weight + value * (1 - weight), mass * weight + 1 - weight];
    return sum / mass;
  });
}

export class Chart {
  /** `stacked`: the series are shares, one upon the other; `tag`: the name of the figure in TensorBoard. */
  constructor(title, { stacked = false, tag = "" } = {}) {
    this.stacked = stacked;
    this.series = [];
    this.smooth = 0;
    this.svg = draw("svg", { class: "chart", role: "img", tabindex: 0 });
    this.svg.setAttribute("aria-label", title);
    this.legend = make("div", { class: "legend" });
    this.readout = make("output", { class: "readout dim" });
    this.element = make("figure", { class: "panel figure" },
      make("figcaption", {}, make("strong", {}, title), tag && make("small", { class: "dim tag" }, tag), this.readout), this.svg, this.legend);
    this.svg.addEventListener("pointermove", (event) => this.point(event.clientX));
    this.svg.addEventListener("pointerleave", () => this.at(null));
    this.svg.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || !this.x.length) return;
      event.preventDefault();
      this.at(Math.min(Math.max((this.now ?? this.x.length) + by, 0), this.x.length - 1));
    });
    this.x = [];
    new ResizeObserver(() => this.redraw()).observe(this.svg);
  }

  /** x: [N]; series: [{name, color, mean [N], low, high, seeds, x}], where the last four may be missing. */
  set(x, series) {
    [this.x, this.series] = [x, series];
    this.legend.replaceChildren(...(series.length > 1 ? series.map((each) => make("span", { class: `key seat${each.color % 8}` }, each.name)) : []));
    this.redraw();
  }

  lines() {
    if (!this.stacked) return this.series.map((each) => ({ ...each, mean: this.smooth ? smoothed(each.mean, this.smooth) : each.mean }));
    const told = this.x.map((_, i) => this.series.some((each) => each.mean[i] != null)); // other rows speak of other things
    const sum = told.map((known) => (known ? 0 : null));
    return this.series.map((each) => {
      const low = [...sum];
      each.mean.forEach((value, i) => { if (told[i]) sum[i] += value || 0; });
      return { ...each, low, high: [...sum], mean: [...sum], seeds: undefined };
    });
  }

  range(lines) {
    let [low, high] = [Infinity, -Infinity];
    const see = (value) => { if (value != null) { if (value < low) low = value; if (value > high) high = value; } };
    for (const line of lines) [line.mean, line.low, line.high, ...(line.seeds || [])].forEach((values) => values?.forEach(see));
    if (this.stacked) return [0, Math.max(1, high)];
    if (low > high) return [0, 1];
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 0.5;
    return [low >= 0 && low < room * 4 ? Math.min(low, 0) : low - room, high + room];
  }

  redraw() {
    const width = this.svg.clientWidth;
    if (!width) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HIGH}`);
    const lines = this.lines();
    const [low, high] = this.range(lines);
    const first = Math.min(...lines.map((line) => (line.x || this.x)[0] ?? 0), 0);
    const last = Math.max(...lines.map((line) => (line.x || this.x).at(-1) ?? 0), first + 1);
    this.px = (value) => LEFT + (width - LEFT - RIGHT) * (value - first) / (last - first);
    this.py = (value) => TOP + (HIGH - TOP - BOTTOM) * (high - value) / (high - low);
    const parts = [];
    for (const value of ticks(low, high, 4)) {
      parts.push(draw("path", { d: `M${LEFT} ${this.py(value)}H${width - RIGHT}`, class: "grid" }), this.text(LEFT - 5, this.py(value) + 3.5, short(value), "end"));
    }
    for (const value of ticks(first, last, width / 90)) parts.push(this.text(this.px(value), HIGH - 6, short(value), "middle"));
    for (const line of lines) parts.push(...this.drawn(line));
    this.hand = draw("path", { class: "cross" });
    this.svg.replaceChildren(...parts, this.hand);
  }

  text(x, y, words, anchor) {
    const element = draw("text", { x, y, "text-anchor": anchor });
    element.textContent = words;
    return element;
  }

  drawn(line) {
    const x = line.x || this.x;
    const name = `seat${line.color % 8}`;
    const parts = (line.seeds || []).map((values) => draw("path", { d: this.path(x, values), class: `line faint ${name}` }));
    if (line.low) parts.push(draw("path", { d: this.band(x, line.low, line.high), class: `band ${name} ${this.stacked ? "stacked" : ""}` }));
    if (!this.stacked) parts.push(draw("path", { d: this.path(x, line.mean), class: `line ${name}` }));
    const known = x.map((_, i) => i).filter((i) => line.mean[i] != null);
    if (!this.stacked && known.length <= FEW) {
      parts.push(...known.map((i) => draw("circle", { cx: this.px(x[i]), cy: this.py(line.mean[i]), r: 2.6, class: `dot ${name}` })));
    }
    return parts;
  }

  /** A path through the known values: rows without this figure make no gap. */
  path(x, values) {
    let path = "";
    values.forEach((value, i) => { if (value != null) path += `${path ? "L" : "M"}${this.px(x[i]).toFixed(1)} ${this.py(value).toFixed(1)}`; });
    return path;
  }

  band(x, low, high) {
    const known = x.map((_, i) => i).filter((i) => low[i] != null && high[i] != null);
    const point = (i, values) => `${this.px(x[i]).toFixed(1)} ${this.py(values[i]).toFixed(1)}`;
    if (!known.length) return "";
    return `M${known.map((i) => point(i, high)).join("L")}L${known.reverse().map((i) => point(i, low)).join("L")}Z`;
  }

  point(clientX) {
    const box = this.svg.getBoundingClientRect();
    const best = nearest(this.x.map((value) => this.px(value)), clientX - box.left, this.x);
    this.at(best < 0 ? null : best);
  }

  at(i) {
    this.now = i;
    if (i == null || !this.hand) {
      this.hand?.setAttribute("d", "");
      this.readout.textContent = "";
      return;
    }
    this.hand.setAttribute("d", `M${this.px(this.x[i])} ${TOP}V${HIGH - BOTTOM}`);
    const told = this.series.map((each) => {
      const j = nearest(each.x || this.x, this.x[i], each.mean);
      const half = each.low?.[j] != null ? ` ± ${short((each.high[j] - each.low[j]) / 2)}` : "";
      return `${this.series.length > 1 ? `${each.name} ` : ""}${short(each.mean[j])}${half}`;
    });
    this.readout.textContent = `${short(this.x[i])}: ${told.join(", ")}`;
  }
}

/** The index of the known place that is nearest to the wanted one; -1 if there is none. */
function nearest(places, wanted, known) {
  let best = -1;
  places.forEach((place, i) => {
    if (known[i] != null && (best < 0 || Math.abs(place - wanted) < Math.abs(places[best] - wanted))) best = i;
  });
  return best;
}
