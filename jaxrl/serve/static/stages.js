// Where a recorded game is shown: as drawings, as text, or as a film. `space.js` has the one in three dimensions.
import { drawing, make } from "./common.js";
import { named } from "./words.js";

const AGAIN = 300; // milliseconds until a picture that is not drawn yet is asked for again
const AHEAD = 3; // pictures that are fetched before they are needed

const wait = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** A part of an open game as text; waits until it is there. */
async function part(id, name, kind) {
  for (;;) {
    const answer = await fetch(`/replays/open/${id}/${name}?as=${kind}`);
    if (answer.status === 200) return answer.text();
    if (answer.status !== 202) throw new Error((await answer.json()).error);
    await wait(AGAIN);
  }
}

/** Drawings: images, so that nothing in them is more than a picture. */
export class Pictures {
  /** `names` are those of the players; "" for seats without one. */
  constructor(id, names) {
    Object.assign(this, { id, names });
    this.image = make("img", { class: "picture", alt: "" });
    this.element = make("div", { class: "stage" }, this.image);
    this.kept = new Map();
  }

  async load(frame) {
    if (!this.kept.has(frame)) {
      const made = part(this.id, frame, "pictures").then(async (text) => {
        const image = new Image(), svg = drawing(text, (line) => named(line, this.names));
        image.src = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }));
        await image.decode();
        return image.src;
      });
      made.catch(() => this.kept.delete(frame));
      this.kept.set(frame, made);
      this.forget();
    }
    return this.kept.get(frame);
  }

  forget() {
    const [oldest] = this.kept.keys();
    if (this.kept.size <= 60) return;
    this.kept.get(oldest).then((url) => URL.revokeObjectURL(url), () => {});
    this.kept.delete(oldest);
  }

  async show(place, words, last) {
    const frame = this.wanted = Math.floor(place);
    if (frame === this.shown) return;
    const url = await this.load(frame);
    if (this.wanted !== frame) return;
    this.shown = frame;
    this.image.src = url;
    this.image.alt = words;
    this.element.dataset.frame = frame;
    for (let next = frame + 1; next <= Math.min(last, frame + AHEAD); next++) this.load(next).catch(() => {});
  }
}

/** The table in words. */
export class Text {
  constructor(id, names) {
    Object.assign(this, { id, names });
    this.element = make("pre", { class: "stage text", tabindex: 0 });
    this.kept = new Map();
  }

  async show(place) {
    const frame = this.wanted = Math.floor(place);
    if (frame === this.shown) return;
    if (!this.kept.has(frame)) this.kept.set(frame, named(await part(this.id, frame, "text"), this.names));
    if (this.wanted !== frame) return;
    this.shown = frame;
    this.element.textContent = this.kept.get(frame);
    this.element.dataset.frame = frame;
  }
}

/** A film: a document in a frame where no script runs, whose clock is ours. */
export class Film {
  constructor(id, seconds) {
    this.seconds = seconds;
    this.frame = make("iframe", { class: "film", title: "film", sandbox: "allow-same-origin", tabindex: -1,
      load: () => { this.ready = true; this.show(this.place || 0); } });
    this.element = make("div", { class: "stage" }, this.frame);
    part(id, 0, "film").then(() => { this.frame.src = `/replays/open/${id}/0?as=film`; }, () => {});
  }

  async show(place) {
    this.place = place;
    const film = this.frame.contentDocument?.documentElement;
    if (!this.ready || !film?.setCurrentTime) return;
    film.pauseAnimations();
    film.setCurrentTime(place * this.seconds);
    const box = film.viewBox.baseVal;
    if (box?.width) this.frame.style.aspectRatio = `${box.width} / ${box.height}`;
    this.element.dataset.frame = Math.floor(place);
  }
}
