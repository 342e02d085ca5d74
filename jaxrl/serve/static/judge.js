// Annotations of a replay by a chosen policy: for every decision its value, the probability of the action, its own choice.
import { ask, at, make, marked } from "./common.js";
import { percent } from "./words.js";

export class Judge {
  /** `changed(told)` gets the annotations by a policy (judgements, values, doubted), or null. */
  constructor(changed) {
    this.changed = changed;
    this.rows = new Map(); // by the first frame that shows the decision
    this.said = make("span", { class: "dim", role: "status" });
    this.select = make("select", { id: "judge", disabled: true, change: () => this.choose(this.select.value) });
    this.note = make("p", { class: "dim", hidden: true });
    this.element = make("div", {}, make("label", { class: "row" }, "judged by ", this.select, this.said), this.note);
  }

  /** Lists the policies that can judge an open game of these players; `wanted` is chosen if it is one of them; else the first
   * where one `must` be. */
  async load(id, wanted, names, must) {
    Object.assign(this, { id, names });
    const found = await ask(`/replays/open/${id}/judges`);
    this.note.replaceChildren(...marked(found.why));
    this.note.hidden = !found.why;
    this.element.firstChild.hidden = !found.judges.length;
    this.select.replaceChildren(...["no policy", ...found.judges].map((name, number) =>
      make("option", { value: number ? name : "" }, name)));
    this.select.disabled = false;
    if (!found.judges.includes(wanted)) wanted = must && found.judges[0];
    if (wanted) {
      this.select.value = wanted;
      await this.choose(wanted);
    }
  }

  async choose(by) {
    this.said.textContent = by && "judging …";
    this.rows = new Map();
    this.changed(null, by); // nothing of the one before stays under another name
    try {
      const told = by && await ask(`/replays/open/${this.id}/judged?by=${encodeURIComponent(by)}`);
      if (by !== this.select.value || !by) return; // another one was chosen meanwhile
      this.said.textContent = "";
      this.rows = grouped(told.judgements);
      this.changed(told, by);
    } catch (error) {
      if (by === this.select.value) this.said.textContent = error.message;
    }
  }

  /** Elements with its judgements of the decisions that a frame is the first to show. */
  lines(frame) {
    const rows = this.rows.get(frame) || [];
    return rows.map((row) => make("small", { class: `judgement seat${row.seat % 8}` }, words(row, this.names)));
  }

  /** Writes the judgements under the decisions of the story. */
  tell() {
    for (const old of at("story").querySelectorAll(".judgement")) old.remove();
    for (const line of at("story").querySelectorAll("button")) {
      line.append(...this.lines(+line.dataset.at));
    }
  }
}

/** A sentence about one decision. */
export function words(row, names) {
  const same = row.name === row.best;
  return `${names[row.seat] || `seat ${row.seat}`} expects ${row.worth}; ${row.name}: ${percent(row.odds)}`
    + (same ? "" : `, rather ${row.best}: ${percent(row.chance)}`);
}

function grouped(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.at, [...(found.get(row.at) || []), row]);
  return found;
}
