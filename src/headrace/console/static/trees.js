// Joins whose probes may be left out: how each tree does, what cannot be kept fresh, and what half-way joins were offered
// and made. A limit that is null is none.

import { html } from "./dom.js";
import { compact, duration, rate, whole } from "./format.js";

export const treesMarkup = (trees) => html`${trees.map(treeMarkup)}`;

const share = (part) => `${Math.round(part * 100)}%`;

function treeMarkup(tree) {
  const part = tree.saturation_per_s ? ` (${share(tree.results_per_s / tree.saturation_per_s)})` : "";
  const rows = [
    ["results", `${rate(tree.results_per_s)} of about ${rate(tree.saturation_per_s)}${part}`, false],
    ["for freshness", tree.mu === null ? "no limit" : `${share(tree.freshness_share)} of ${rate(tree.mu)}`, false],
    ["probes left out", whole(tree.left_out), tree.left_out > 0],
    ["stale", `${whole(tree.stale)}, and ${whole(tree.purged)} let go for their age`, false],
    ["micro-batches released stale", whole(tree.released_late), tree.released_late > 0],
    ["allocations", `${whole(tree.allocations)}, the last in ${duration(tree.allocation_ms)}`, false],
  ];
  return html`<div class="tree" data-key="tree ${tree.group}"><h3 title="${tree.group}">${tree.plan} by ${tree.allocator}</h3>
    ${tree.infeasible.map((one) => html`<p class="alarm">infeasible: ${one}</p>`)}
    <dl class="facts">${rows.map(([name, value, is_alarming]) => html`<div><dt>${name}</dt><dd class="${is_alarming ? "alarm" : ""}">${value}</dd></div>`)}</dl>
    ${tree.halves.length ? halvesMarkup(tree) : ""}</div>`;
}

/** A row a half-way join, of the last micro-batch. */
function halvesMarkup(tree) {
  const numbers = (half) => [compact(half.offered), tree.mu === null ? "all" : compact(half.allowed), compact(half.probed), compact(half.found), compact(half.stale)];
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Half-way joins of ${tree.plan}"><table><thead><tr><th>half-way join</th>${["offered", "allowed", "probed", "found", "stale"].map((name) => html`<th class="num">${name}</th>`)}</tr></thead>
    <tbody>${tree.halves.map((half) => html`<tr><th scope="row">${half.name}</th>${numbers(half).map((one) => html`<td class="num">${one}</td>`)}</tr>`)}</tbody></table></div>`;
}
