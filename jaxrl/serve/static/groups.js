// Which figures of a run belong together, and which are drawn in one chart.

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
const MAIN = ["rollout/ep_rew_mean", "eval/mean_win_rate", "train/explained_variance", "train/entropy_loss", "time/fps", "rollout/ep_len_mean"];
const LEFT_OUT = ["time/iterations", "time/total_timesteps", "time/time_elapsed"];

/** Several tags in one chart: [title, pattern whose group names the series, whether they are shares of one]. */
const TOGETHER = [
  ["Whom it plays against: shares", /^league\/share\/(.+)$/, true],
  ["Ratings (Elo)", /^league\/elo\/(.+)$/, false],
  ["Win rates in the league", /^league\/win_rate\/(.+)$/, false],
  ["Games in the league", /^league\/games\/(.+)$/, false],
  ["Components of the reward, per game", /^rollout\/stat_reward_(.+)$/, false],
  ["Win rates in evaluations", /^eval\/(.+)\/win_rate$/, false],
];
export const CLEAR = 8; // series that one chart shows

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
    found.get(groupOf(tag)).push({ title: tag, stacked: false, tags: { [tag]: tag } });
  }
  return [...found].filter(([, charts]) => charts.length);
}
