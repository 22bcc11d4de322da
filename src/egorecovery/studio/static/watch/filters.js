// Filters of the rollout list.

import { byId, element } from "/static/shell/elements.js";

const FIELDS = { policy: "all methods", task: "all tasks", regime: "all starts", mode: "all modes", outcome: "all outcomes" };
const plain = (name) => name.replaceAll("_", " ");

export function fillFilters(rollouts) {
  for (const [field, all] of Object.entries(FIELDS)) {
    const values = [...new Set(rollouts.map((rollout) => rollout[field]))].sort();
    const select = byId(`filter-${field}`);
    const options = values.map((value) => element("option", { value }, plain(value)));
    select.replaceChildren(element("option", { value: "" }, all), ...options);
  }
}

export function filtered(rollouts) {
  const words = byId("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = Object.keys(FIELDS).map((field) => [field, byId(`filter-${field}`).value]);
  return rollouts.filter((rollout) => {
    if (chosen.some(([field, value]) => value && rollout[field] !== value)) return false;
    const text = `${rollout.policy} ${rollout.task} ${rollout.reason} ${rollout.mode} ${rollout.index}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

export { plain };
