// Groups of a run's figures, and the figures that share a chart.

/** [name of the group, whether a tag belongs to it]; the first that fits. */
const GROUPS = [
  ["Learning", (tag) => MAIN.includes(tag)],
  ["League", (tag) => tag.startsWith("league/")],
  ["Curriculum", (tag) => tag.startsWith("curriculum/")],
  ["Rewards", (tag) => /^(rollout\/stat_reward_|reward)/.test(tag)],
  ["Behaviour", (tag) => tag.startsWith("rollout/stat_")],
  ["Evaluations while training", (tag) => tag.startsWith("eval/")],
  ["Device and speed", (tag) => /^(time|sebulba|profile|fleet|host)\//.test(tag)],
  ["Updates", (tag) => tag.startsWith("train/")],
  ["Games", (tag) => tag.startsWith("rollout/")],
];
const MAIN = ["eval/mean_win_rate", "rollout/ep_rew_mean", "train/explained_variance", "train/entropy_loss", "time/fps", "rollout/ep_len_mean"];
const WORDS = { // titles of charts; of the other tags the part behind the slash
  "eval/mean_win_rate": "Win rate in evaluations",
  "rollout/ep_rew_mean": "Return of a game",
  "rollout/ep_len_mean": "Length of a game, decisions",
  "train/explained_variance": "Explained variance of the values",
  "train/entropy_loss": "Negative entropy of the policy",
  "train/approx_kl": "Change of the policy in an update (KL divergence)",
  "train/clip_fraction": "Share of clipped decisions",
  "train/learning_rate": "Learning rate",
  "train/value_loss": "Error of the values",
  "time/fps": "Speed, steps a second",
};
const LEFT_OUT = ["time/iterations", "time/total_timesteps", "time/time_elapsed"];

/** Several tags in one chart: [title, pattern whose group names the series, whether they are shares of one]. */
const TOGETHER = [
  ["Shares of the opponents", /^league\/share\/(.+)$/, true],
  ["Ratings (Elo)", /^league\/elo\/(.+)$/, false],
  ["Win rates in the league", /^league\/win_rate\/(.+)$/, false],
  ["Games in the league", /^league\/games\/(.+)$/, false],
  ["Components of the reward, per game", /^rollout\/stat_reward_(.+)$/, false],
  ["Win rates in evaluations", /^eval\/(.+)\/win_rate$/, false],
];
export const CLEAR = 8; // series that one chart shows

/** The title of a tag's chart, e.g. "train/policy_loss" -> "Policy loss". */
export function titleOf(tag) {
  if (WORDS[tag]) return WORDS[tag];
  const words = tag.slice(tag.indexOf("/") + 1).replace(/^stat_/, "").replace(/[_/]/g, " ");
  return words[0].toUpperCase() + words.slice(1);
}

/** {group: [{title, tags: {name: tag}, stacked}]} of the tags of a run. */
export function grouped(tags) {
  const found = new Map(GROUPS.map(([name]) => [name, []]).concat([["Others", []]]));
  const rest = new Set(tags.filter((tag) => !LEFT_OUT.includes(tag)));
  const groupOf = (tag) => GROUPS.find(([, fits]) => fits(tag))?.[0] || "Others";
  for (const [title, pattern, stacked] of TOGETHER) {
    const own = [...rest].filter((tag) => pattern.test(tag));
    if (own.length < 2) continue;
    found.get(groupOf(own[0])).push({ title, stacked, tags: Object.fromEntries(own.map((tag) => [pattern.exec(tag)[1], tag])) });
    own.forEach((tag) => rest.delete(tag));
  }
  for (const tag of [...MAIN, ...tags]) {
    if (!rest.delete(tag)) continue;
    found.get(groupOf(tag)).push({ title: titleOf(tag), stacked: false, tags: { [tag]: tag } });
  }
  return [...found].filter(([, charts]) => charts.length);
}
