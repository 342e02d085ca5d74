// Views of a recorded game: drawings, text, a film. `space.js` has the one in three dimensions.
import { drawing, make, wait } from "./common.js";
import { named } from "./words.js";

const AGAIN = 300; // milliseconds until a part that is not there yet is asked for again
const AHEAD = 3; // frames that are fetched before they are needed
const KEPT = 60; // frames that are kept

/** A part of an open game as text; waits until it is there. */
export async function part(id, name, kind) {
  for (;;) {
    const answer = await fetch(`/replays/open/${id}/${name}?as=${kind}`);
    if (answer.status === 200) return answer.text();
    if (answer.status !== 202) throw new Error((await answer.json()).error);
    await wait(AGAIN);
  }
}

/** A drawing as an image, so that nothing in it is more than a picture. */
async function picture(svg) {
  const image = make("img", { class: "picture" });
  image.src = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }));
  await image.decode();
  URL.revokeObjectURL(image.src);
  return image;
}

/** Drawings, or the table in words. */
export class Frames {
  /** `kind`: pictures or text; `names` are those of the players, "" for seats without one. */
  constructor(id, kind, names) {
    Object.assign(this, { id, kind, names, kept: new Map() });
    this.element = kind === "text" ? make("pre", { class: "stage text", tabindex: 0 }) : make("div", { class: "stage" });
  }

  async read(frame) {
    const text = await part(this.id, frame, this.kind), words = (line) => named(line, this.names);
    return this.kind === "text" ? words(text) : picture(drawing(text, words));
  }

  load(frame) {
    if (!this.kept.has(frame)) {
      const found = this.read(frame);
      found.catch(() => this.kept.delete(frame));
      this.kept.set(frame, found);
      if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    }
    return this.kept.get(frame);
  }

  async show(place, words, last) {
    const frame = this.wanted = Math.floor(place);
    if (frame === this.shown) return;
    const found = await this.load(frame);
    if (this.wanted !== frame) return;
    this.shown = frame;
    if (this.kind === "pictures") found.alt = words;
    this.element.replaceChildren(found);
    this.element.dataset.frame = frame;
    for (let next = frame + 1; next <= Math.min(last, frame + AHEAD); next++) this.load(next).catch(() => {});
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
