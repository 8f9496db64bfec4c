// Curves over time, as SVG: a few lines, an axis, and the values where the pointer is, or the arrow keys have gone.

import { html } from "./dom.js";
import { clock } from "./format.js";

export const COLOURS = 8;
const PAD = { left: 52, right: 12, top: 10, bottom: 22 };
const drawn = new Map();

/** A chart of several series over the same times. `show` formats a value; `log`: a logarithmic axis. */
export function lineChart({ id, label, at, series, width, height = 200, show, log = false }) {
  const inner = { width: Math.max(width - PAD.left - PAD.right, 10), height: height - PAD.top - PAD.bottom };
  const values = series.flatMap((one) => one.values.filter((value) => value !== null));
  if (at.length < 2 || !values.length) {
    return html`<div class="chart empty" data-key="${id}"><p>Nothing has come yet.</p></div>`;
  }
  const scale = log ? logScale(values, inner.height) : linearScale(values, inner.height);
  const [first, last] = [at[0], at[at.length - 1]];
  const x = (time) => PAD.left + ((time - first) / Math.max(last - first, 1)) * inner.width;
  const y = (value) => PAD.top + inner.height - scale.place(value);
  drawn.set(id, { at, series, x, y, show, width, height, shown: drawn.get(id)?.shown });
  return html`<div class="chart" data-key="${id}" data-chart="${id}" tabindex="0" role="group" aria-label="${label}; the arrows go through it">
    <svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${label}">
      ${scale.ticks.map((tick) => html`<g class="tick"><line x1="${PAD.left}" x2="${width - PAD.right}" y1="${y(tick).toFixed(1)}" y2="${y(tick).toFixed(1)}"/><text x="${PAD.left - 8}" y="${(y(tick) + 3.5).toFixed(1)}">${show(tick)}</text></g>`)}
      ${timeTicks(first, last, inner.width).map(({ time, text, end }) => html`<text class="time${end ? " end" : ""}" x="${x(time).toFixed(1)}" y="${height - 6}">${text}</text>`)}
      ${series.map((one) => html`<path class="line c${one.colour % COLOURS}" d="${path(at, one.values, x, y)}"/>`)}
      <line class="cross" data-own x1="0" x2="0" y1="${PAD.top}" y2="${height - PAD.bottom}"/>
    </svg>
    <div class="tip" data-own role="status" hidden></div>
  </div>`;
}

/** A small curve without axes. */
export function sparkline(values, width = 96, height = 26) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length < 2) return html`<svg class="spark" width="${width}" height="${height}" aria-hidden="true"></svg>`;
  const most = Math.max(...known, 1e-9);
  const x = (place) => (place / (values.length - 1)) * width;
  const y = (value) => height - 2 - (value / most) * (height - 4);
  const line = path(values.map((_, place) => place), values, x, y);
  const first = x(values.findIndex((value) => value !== null && value !== undefined)).toFixed(1);
  return html`<svg class="spark" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" aria-hidden="true"><path class="area" d="${line}L${width} ${height}L${first} ${height}Z"/><path class="line" d="${line}"/></svg>`;
}

function path(at, values, x, y) {
  let text = "";
  let pen = "M";
  for (let place = 0; place < at.length; place += 1) {
    const value = values[place];
    if (value === null || value === undefined) { pen = "M"; continue; }
    text += `${pen}${x(at[place]).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  }
  return text;
}

function linearScale(values, height) {
  const most = Math.max(...values, 0) || 1;
  const step = niceStep(most / 3.2);
  const top = Math.ceil(most / step) * step;
  const ticks = [];
  for (let tick = 0; tick <= top + step / 2; tick += step) ticks.push(tick);
  return { ticks, place: (value) => (value / top) * height };
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const share = rough / power;
  return (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10) * power;
}

function logScale(values, height) {
  const positive = values.filter((value) => value > 0);
  if (!positive.length) return linearScale(values, height);
  const low = Math.floor(Math.log10(Math.min(...positive)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...positive))), low + 1);
  const ticks = [];
  const parts = high - low > 1 ? [1] : [1, 2, 5]; // of a single power of ten, also what is between
  for (let power = low; power < high; power += 1) for (const part of parts) ticks.push(part * 10 ** power);
  ticks.push(10 ** high);
  const place = (value) => ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * height;
  return { ticks, place };
}

function timeTicks(first, last, width) {
  const span = last - first;
  const wanted = Math.max(Math.min(Math.floor(width / 110), 5), 1);
  const steps = [5, 10, 15, 30, 60, 120, 180, 300, 600];
  const step = steps.find((one) => span / one <= wanted) ?? Math.ceil(span / wanted / 600) * 600;
  const ticks = [{ time: last, text: "now", end: true }];
  for (let ago = step; ago <= span * 0.97; ago += step) {
    const text = ago % 60 === 0 ? `${ago / 60} min ago` : `${ago} s ago`;
    if (last - ago - first > span * 0.06) ticks.push({ time: last - ago, text, end: false });
  }
  return ticks;
}

/** Shows the values under the pointer. */
export function hover(event) {
  const chart = event.target.closest?.("[data-chart]");
  for (const tip of document.querySelectorAll(".chart .tip:not([hidden])")) {
    const other = tip.closest(".chart");
    if (other !== chart && other !== document.activeElement) hide(other);
  }
  const told = chart && drawn.get(chart.dataset.chart);
  if (!told) return;
  const box = chart.querySelector("svg").getBoundingClientRect();
  const at = (event.clientX - box.left) * (told.width / box.width);
  tell(chart, told, nearest(told.at, (time) => Math.abs(told.x(time) - at)));
}

/** Shows the newest values of the chart that has the focus; with the arrows, those before and after. */
export function walk(event) {
  const chart = event.target.closest?.("[data-chart]");
  const told = chart && drawn.get(chart.dataset.chart);
  if (!told) return;
  if (event.type === "focusout") { hide(chart); return; }
  const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  if (event.type === "keydown" && !(event.key in steps)) return;
  const last = told.at.length - 1;
  const now = event.type === "keydown" && told.shown !== undefined ? nearest(told.at, (time) => Math.abs(time - told.shown)) : last;
  if (event.type === "keydown") event.preventDefault();
  tell(chart, told, Math.max(Math.min(now + (steps[event.key] ?? 0), last), 0));
}

function nearest(times, distance) {
  let place = 0;
  for (let one = 0; one < times.length; one += 1) if (distance(times[one]) < distance(times[place])) place = one;
  return place;
}

/** Puts the cross and the values of one time into a chart. */
function tell(chart, told, place) {
  told.shown = told.at[place];
  const box = chart.querySelector("svg").getBoundingClientRect();
  const scale = told.width / box.width;
  const cross = chart.querySelector(".cross");
  const x = told.x(told.at[place]);
  cross.setAttribute("x1", x);
  cross.setAttribute("x2", x);
  cross.classList.add("shown");
  const tip = chart.querySelector(".tip");
  const rows = told.series
    .map((one) => ({ name: one.name, colour: one.colour % COLOURS, value: one.values[place] }))
    .filter((one) => one.value !== null && one.value !== undefined)
    .sort((one, other) => other.value - one.value);
  tip.innerHTML = html`<b>${clock(told.at[place])}</b>${rows.map((one) => html`<span><i class="dot c${one.colour}"></i>${one.name}<em>${told.show(one.value)}</em></span>`)}`.toString();
  tip.hidden = false;
  tip.style.left = `${Math.min(Math.max(x / scale + 12, 0), box.width - tip.offsetWidth - 4)}px`;
  if (x / scale > box.width / 2) tip.style.left = `${Math.max(x / scale - tip.offsetWidth - 12, 0)}px`;
}

function hide(chart) {
  chart.querySelector(".tip").hidden = true;
  chart.querySelector(".cross")?.classList.remove("shown");
}
