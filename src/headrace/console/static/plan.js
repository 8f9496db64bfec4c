// The shared plan, drawn: streams on the left, joins with their bands in the middle, queries on the right.
//
//   stream ---tuples/s---> | join                |
//   stream ---tuples/s---> | 0 .. w1             | ---results/s---> query with window w1
//                          | w1 .. w2            | ---results/s---> query with window w2, which reads both bands
//
// A query stands beside the band that its window ends in. What belongs to the chosen query is bright.

import { html } from "./dom.js";
import { brief, compact, fitted, rate } from "./format.js";

const ROW = 40;
const BOX = 32;
const HEAD = 46;
const GAP = 22;
/** Queries shown beside a band: of a plan with many, fewer. */
const mostShown = (total) => (total > 24 ? 5 : 12);

/** The drawing, as wide as it may be. `chosen`: the query whose way is bright; `fresh`: one that has just come. */
export function planMarkup(plan, stats, width, chosen, fresh) {
  const places = columns(width);
  const layout = arranged(plan, places);
  const streamRates = new Map(stats.streams.map((one) => [one.stream, one]));
  const queryRates = new Map(stats.queries.map((one) => [one.query, one]));
  const way = wayOf(plan, chosen);
  const draw = { places, layout, streamRates, queryRates, way, fresh, is_narrow: width < 640 };
  return html`<svg class="plan${chosen ? " choosing" : ""}" width="${width}" height="${layout.height}" viewBox="0 0 ${width} ${layout.height}" role="group" aria-label="The shared plan">
    <g class="edges">${layout.groups.map((group) => edges(group, draw))}</g>
    ${layout.streams.map((stream) => streamBox(stream, draw))}
    ${layout.groups.map((group) => groupBox(group, draw))}
    ${layout.groups.map((group) => group.rows.map((row) => queryBox(row, group, draw)))}
  </svg>`;
}

function columns(width) {
  const is_narrow = width < 640;
  const gap = is_narrow ? 18 : Math.min(Math.max(width * 0.09, 70), 130);
  const rest = width - 2 * gap;
  const stream = rest * (is_narrow ? 0.27 : 0.22);
  const query = rest * (is_narrow ? 0.37 : 0.33);
  const group = rest - stream - query;
  return {
    stream: { x: 1, width: stream - 2 },
    group: { x: stream + gap, width: group },
    query: { x: stream + group + 2 * gap, width: query - 2 },
  };
}

/** Where everything is. */
function arranged(plan, places) {
  const most = mostShown(plan.groups.reduce((sum, group) => sum + group.queries.length, 0));
  let y = 8;
  const groups = plan.groups.map((group, number) => {
    const bands = group.is_join ? group.windows.map((text, place) => ({ text, place })) : [{ text: "all rows", place: null }];
    const top = y;
    y += HEAD;
    const rows = [];
    for (const band of bands) {
      band.y = y;
      const mine = group.queries.filter((query) => query.window === band.place);
      const shown = mine.length > most ? mine.slice(0, most - 1) : mine;
      for (const query of shown) { rows.push({ query, band: band.place, y }); y += ROW; }
      if (shown.length < mine.length) { rows.push({ more: mine.length - shown.length, band: band.place, y }); y += ROW; }
      if (!mine.length) y += ROW;
      band.height = y - band.y;
    }
    y += 8;
    const found = { group, number, bands, rows, y: top, height: y - top };
    y += GAP;
    return found;
  });
  const middles = new Map();
  for (const one of groups) {
    for (const input of one.group.inputs) {
      if (!middles.has(input.stream)) middles.set(input.stream, []);
      middles.get(input.stream).push({ y: one.y + one.height / 2, weight: one.height });
    }
  }
  const wanted = plan.streams.map((stream) => {
    const mine = middles.get(stream.name) ?? [];
    const weight = mine.reduce((sum, one) => sum + one.weight, 0);
    return { stream, y: weight ? mine.reduce((sum, one) => sum + one.y * one.weight, 0) / weight : 0, idle: !mine.length };
  });
  const tall = 46;
  const step = tall + 16;
  const order = wanted.map((one, place) => ({ ...one, place })).sort((a, b) => a.y - b.y || a.place - b.place);
  const centre = order.length ? order.reduce((sum, one) => sum + one.y, 0) / order.length : 0;
  let next = Math.max(centre - (order.length * step) / 2, 8);
  const streams = order.map((one) => {
    const at = { ...one, y: next, height: tall };
    next += step;
    return at;
  });
  return { groups, streams, places, height: Math.max(y - GAP + 8, next, 120) };
}

/** The streams, groups and bands that a query reads. */
function wayOf(plan, name) {
  if (!name) return null;
  for (const [number, group] of plan.groups.entries()) {
    const query = group.queries.find((one) => one.name === name);
    if (query) return { name, number, band: query.window, streams: new Set(group.inputs.map((one) => one.stream)) };
  }
  return null;
}

function edges(one, { places, layout, streamRates, queryRates, way, is_narrow }) {
  const from = new Map(layout.streams.map((stream) => [stream.stream.name, stream]));
  const inputs = one.group.inputs.map((input, place) => {
    const stream = from.get(input.stream);
    const told = streamRates.get(input.stream);
    const start = { x: places.stream.x + places.stream.width, y: stream.y + stream.height / 2 };
    const end = { x: places.group.x, y: one.y + (one.height * (place + 1)) / (one.group.inputs.length + 1) };
    const bright = way && way.number === one.number;
    return edge(start, end, told?.tuples_per_s ?? 0, bright, is_narrow ? "" : rate(told?.tuples_per_s ?? 0), 0.7);
  });
  const outputs = one.rows.filter((row) => row.query).map((row) => {
    const told = queryRates.get(row.query.name);
    const y = row.y + ROW / 2;
    const start = { x: places.group.x + places.group.width, y };
    const end = { x: places.query.x, y };
    return edge(start, end, told?.results_per_s ?? 0, way?.name === row.query.name, is_narrow ? "" : rate(told?.results_per_s ?? 0), 0.5);
  });
  return [...inputs, ...outputs];
}

/** `share`: how far along the label stands. */
function edge(start, end, perSecond, bright, label, share) {
  const bend = (end.x - start.x) / 2;
  const path = `M${start.x.toFixed(1)} ${start.y.toFixed(1)}C${(start.x + bend).toFixed(1)} ${start.y.toFixed(1)} ${(end.x - bend).toFixed(1)} ${end.y.toFixed(1)} ${end.x.toFixed(1)} ${end.y.toFixed(1)}`;
  const wide = perSecond > 0 ? Math.min(1.2 + Math.log10(1 + perSecond) * 0.9, 5) : 1;
  const pace = perSecond > 1000 ? "fast" : perSecond > 0 ? "slow" : "still";
  const along = 3 * share ** 2 - 2 * share ** 3; // of a curve that begins and ends level
  const rest = 3 * share * (1 - share) ** 2 * 0.5 + 3 * share ** 2 * (1 - share) * 0.5 + share ** 3;
  const middle = { x: start.x + (end.x - start.x) * rest, y: start.y + (end.y - start.y) * along };
  return html`<g class="edge ${pace}${bright ? " bright" : ""}"><path class="bed" d="${path}" stroke-width="${wide.toFixed(1)}"/><path class="flow" d="${path}" stroke-width="${wide.toFixed(1)}"/>${label ? html`<text x="${middle.x.toFixed(1)}" y="${(middle.y - 6).toFixed(1)}">${label}</text>` : ""}</g>`;
}

const letters = (width, size = 7.1) => Math.max(Math.floor(width / size), 3);

function streamBox({ stream, y, height, idle }, { places, streamRates, way, is_narrow }) {
  const { x, width } = places.stream;
  const told = streamRates.get(stream.name);
  const bright = way?.streams.has(stream.name);
  const under = is_narrow ? rate(told?.tuples_per_s ?? 0) : `${stream.connector}, ${stream.columns.length} columns`;
  return html`<g class="node stream${bright ? " bright" : ""}${idle ? " idle" : ""}" data-key="stream ${stream.name}"><title>${stream.name} (${stream.columns.join(", ")}), by ${stream.time}</title>
    <rect x="${x}" y="${y.toFixed(1)}" width="${width.toFixed(1)}" height="${height}" rx="8"/>
    <text class="name" x="${x + 10}" y="${(y + 20).toFixed(1)}">${fitted(stream.name, letters(width - 18, 7.3))}</text>
    <text class="note" x="${x + 10}" y="${(y + 36).toFixed(1)}">${fitted(under, letters(width - 14, 6.1))}</text></g>`;
}

function groupBox(one, { places, way, is_narrow }) {
  const { x, width } = places.group;
  const { group, bands } = one;
  const mine = way?.number === one.number;
  const kind = group.is_join ? is_narrow ? "join" : `join of ${group.inputs.map((input) => input.stream).join(", ")}` : is_narrow ? "scan" : `scan of ${group.inputs[0].stream}`;
  const under = group.is_join ? group.signature : `${group.queries.length} ${group.queries.length === 1 ? "query" : "queries"}`;
  let before = "0";
  return html`<g class="node group${mine ? " bright" : ""}" data-key="group ${group.signature}"><title>${group.signature}</title>
    <rect class="body" x="${x.toFixed(1)}" y="${one.y}" width="${width.toFixed(1)}" height="${one.height}" rx="10"/>
    <text class="name" x="${(x + 12).toFixed(1)}" y="${one.y + 19}">${fitted(kind, letters(width - 22, 6.9))}</text>
    <text class="note" x="${(x + 12).toFixed(1)}" y="${one.y + 35}">${fitted(under, letters(width - 22, 5.9))}</text>
    ${bands.map((band) => {
      const text = band.place === null ? "rows that pass" : is_narrow ? `to ${brief(band.text)}` : `${before} – ${brief(band.text)}`;
      before = brief(band.text);
      const read = mine && (band.place === null || band.place <= (way.band ?? 0));
      return html`<g class="band d${Math.min(band.place ?? 0, 7)}${read ? " read" : ""}"><rect x="${(x + 8).toFixed(1)}" y="${band.y + 2}" width="${(width - 16).toFixed(1)}" height="${band.height - 4}" rx="5"/><text x="${(x + 18).toFixed(1)}" y="${band.y + band.height / 2 + 4}">${fitted(text, letters(width - 34, 6.6))}</text></g>`;
    })}</g>`;
}

function queryBox(row, one, { places, queryRates, way, fresh, is_narrow }) {
  const { x, width } = places.query;
  const y = row.y + (ROW - BOX) / 2;
  if (row.more) {
    return html`<a class="node more" href="#/queries" data-key="more ${one.number} ${row.band}"><rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${BOX}" rx="8"/><text class="name" x="${(x + 12).toFixed(1)}" y="${y + 20}">and ${row.more} more</text></a>`;
  }
  const { query } = row;
  const told = queryRates.get(query.name);
  const classes = `${way?.name === query.name ? " bright" : ""}${fresh === query.name ? " fresh" : ""}`;
  const total = is_narrow ? rate(told?.results_per_s ?? 0) : compact(told?.results ?? 0);
  const kept = is_narrow ? 0 : 58;
  return html`<a class="node query${classes}" href="#/queries/${encodeURIComponent(query.name)}" data-key="query ${query.name}" data-query="${query.name}"><title>${query.name}${query.window_text ? `, window ${query.window_text}` : ""}${query.where ? `, where ${query.where}` : ""}</title>
    <rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${BOX}" rx="8"/>
    <text class="name" x="${(x + 12).toFixed(1)}" y="${y + (is_narrow ? 14 : 20)}">${fitted(query.name, letters(width - 18 - kept, 7.2))}</text>
    <text class="${is_narrow ? "note" : "total"}" x="${(is_narrow ? x + 12 : x + width - 10).toFixed(1)}" y="${y + (is_narrow ? 27 : 20)}">${total}</text></a>`;
}
