// What each view shows, as markup of the state. Nothing here asks or remembers.

import { html } from "./dom.js";
import { COLOURS, lineChart, sparkline } from "./charts.js";
import { EDITOR } from "./editor.js";
import { byName, bytes, clock, compact, duration, fitted, rate, whole, words } from "./format.js";
import { planMarkup } from "./plan.js";
import { treesMarkup } from "./trees.js";

const MOST_CURVES = 8;
/** Sections of the statistics that have a place of their own; all others are shown as they come. */
const KNOWN = new Set(["queries", "streams", "shards", "windows", "orders", "switches", "graph", "stage_ms", "spark", "batches", "elapsed_s",
  "batch_ms", "batch", "probes", "probes_allowed", "throttled_batches", "trees", "ordering", "switched"]);
/** Queries without a box to find one. */
const FEW = 12;
const MOST_ROWS = 200;

export function statusMarkup({ stats, connection, pipeline }) {
  if (connection === "open" && pipeline && !pipeline.is_running) return html`<span class="lamp bad"></span><span>ended</span> <span class="muted wide">micro-batch ${stats.batch ?? "–"}</span>`;
  if (connection !== "open") return html`<span class="lamp ${connection === "broken" ? "bad" : ""}"></span><span>${connection === "broken" ? "no connection" : "connecting"}</span>`;
  return html`<span class="lamp good"></span><span class="long">running</span> <span class="muted">micro-batch ${stats.batch ?? "–"}</span> <span class="muted wide">${duration(stats.batch_ms)}</span>`;
}

/** Above every view: that what it shows is not of now, if so. */
export function noticeMarkup({ stats, connection, pipeline, history }) {
  if (!stats) return connection === "broken" ? html`<p class="notice">The service does not answer, or wants a token. It is asked again and again.</p>` : html``;
  const last = history.at_s.at(-1);
  const since = last ? ` What is shown is of ${clock(last)}.` : "";
  if (connection === "broken") return html`<p class="notice">There is no connection to the service: it is asked again and again.${since}</p>`;
  if (pipeline && !pipeline.is_running) return html`<p class="notice">The pipeline has ended: start it again to go on from here.</p>`;
  return html``;
}

export function planView(state, width) {
  const { stats, plan, history } = state;
  return html`${figures(state)}
  <section class="card" aria-labelledby="plan-title"><header><h2 id="plan-title">Shared plan</h2>
    <p class="muted">${planSummary(plan)}</p></header>
    <div class="drawing" id="drawing">${planMarkup(plan, stats, Math.max(width - 34, 280), state.chosen, state.fresh)}</div></section>
  <div class="two">
    ${curves(state, "results", "Results per second", (one) => one.results_per_s, rate, width, isWide(history))}
    ${curves(state, "response", "Response time (mean)", (one) => one.response_mean_ms, duration, width, true)}
  </div>${history.at_s.length ? "" : html`<p class="muted">Curves begin with the next look.</p>`}`;
}

function planSummary(plan) {
  const joins = plan.groups.filter((group) => group.is_join);
  const count = plan.groups.reduce((sum, group) => sum + group.queries.length, 0);
  const joined = joins.reduce((sum, group) => sum + group.queries.length, 0);
  const parts = [`${plural(count, "query", "queries")} on ${plural(plan.streams.length, "stream")}`];
  if (joins.length) parts.push(`${plural(joined, "query", "queries")} ${joined === 1 ? "has" : "share"} ${plural(joins.length, "join")}`);
  return parts.join(", ");
}

const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

function figures({ stats, history }) {
  const sum = (some, name) => some.reduce((total, one) => total + one[name], 0);
  const waiting = sum(stats.windows, "backlog_tuples");
  const lags = stats.streams.map((one) => one.lag_ms).filter((one) => one !== null);
  const told = [
    ["Tuples in", rate(sum(stats.streams, "tuples_per_s")), history.tuples_per_s],
    ["Results out", rate(sum(stats.queries, "results_per_s")), history.results_per_s],
    ["Micro-batch", duration(stats.batch_ms), history.batch_ms],
    ["Waiting for a turn", compact(waiting), history.backlog_tuples],
    ["Held in windows", compact(sum(stats.shards, "held_tuples")), history.held_tuples],
    ["Stream lag", lags.length ? duration(Math.max(...lags)) : "–", null],
  ];
  return html`<dl class="figures">${told.map(([name, value, values]) => html`<div><dt>${name}</dt><dd>${value}</dd>${values ? sparkline(values.slice(-120)) : ""}</div>`)}</dl>`;
}

/** Whether rates differ so much that a start or a burst would flatten all else. */
function isWide({ results_per_s }) {
  const some = results_per_s.filter((value) => value > 0).sort((one, other) => one - other);
  return some.length > 1 && some.at(-1) > 20 * some[Math.floor(some.length / 2)];
}

/** The queries that have curves: of many, those with the most results lately; the same ones in all charts. */
function withCurves(history, order) {
  const lately = (one) => one.results_per_s.slice(-60).reduce((sum, value) => sum + (value ?? 0), 0);
  return history.queries.filter((one) => order.has(one.query)).map((one) => [lately(one), one])
    .sort(([one], [other]) => other - one).slice(0, MOST_CURVES).map(([, one]) => one)
    .sort((one, other) => order.get(one.query) - order.get(other.query));
}

/** A colour for each of some queries: its own, unless one before has it. */
function colours(shown, order) {
  const free = new Set(Array(COLOURS).keys());
  const mine = new Map();
  for (const one of shown) if (free.delete(order.get(one.query) % COLOURS)) mine.set(one.query, order.get(one.query) % COLOURS);
  for (const one of shown) if (!mine.has(one.query)) { const [next] = free; free.delete(next); mine.set(one.query, next); }
  return mine;
}

function curves({ history, stats, chosen }, id, title, pick, show, width, log) {
  const order = new Map(stats.queries.map((one, place) => [one.query, place]));
  const shown = withCurves(history, order);
  const colour = colours(shown, order);
  const series = shown.map((one) => ({ name: one.query, colour: colour.get(one.query), values: pick(one) }));
  const inner = (width >= 900 ? (width - 16) / 2 : width) - 34;
  const left = stats.queries.length - shown.length;
  return html`<section class="card" aria-label="${title}"><header><h2>${title}</h2>${log ? html`<p class="muted">logarithmic</p>` : ""}</header>
    ${lineChart({ id, label: `${title} of each query, over time`, at: history.at_s, series, width: Math.max(inner, 240), show, log })}
    <ul class="legend">${series.map((one) => html`<li><a href="#/queries/${encodeURIComponent(one.name)}" data-query="${one.name}" class="${chosen === one.name ? "chosen" : ""}"><i class="dot c${one.colour % COLOURS}"></i>${one.name}</a></li>`)}${left > 0 ? html`<li class="muted">and ${left} more</li>` : ""}</ul></section>`;
}

export function queriesView(state, width) {
  const { queries, name } = state;
  const shown = queries.filter((query) => query.name.toLowerCase().includes(state.filter.toLowerCase()));
  const one = queries.find((query) => query.name.toLowerCase() === name?.toLowerCase());
  return html`<section class="card" aria-labelledby="queries-title"><header><h2 id="queries-title">Queries</h2><p class="muted">${plural(queries.length, "query", "queries")}${state.filter ? `, ${whole(shown.length)} with that name` : ""}</p>
    ${queries.length > FEW ? html`<input class="find" type="search" data-input="filter" value="${state.filter}" placeholder="Find by name" aria-label="Find queries by name">` : ""}<a class="button primary" href="#/sql">Add a query</a></header>
    <div class="scroll"><table class="queries"><thead><tr><th>Query</th><th>Window</th><th class="num">Results</th><th class="num">Per second</th><th class="wide">Lately</th><th class="num">Mean</th><th class="num wide">p99</th><th><span class="hidden">Do</span></th></tr></thead>
    <tbody>${shown.slice(0, MOST_ROWS).map((query) => queryRow(query, state))}</tbody></table></div>${shown.length > MOST_ROWS ? html`<p class="muted">and ${whole(shown.length - MOST_ROWS)} more: find them by name.</p>` : ""}</section>
    ${name && !one ? html`<section class="card"><p>There is no query ${name}.</p></section>` : ""}
    ${one ? queryDetail(one, state, width) : ""}`;
}

function queryRow(query, { plan, stats, history, name, busy }) {
  const told = stats.queries.find((one) => one.query === query.name);
  const curve = history.queries.find((one) => one.query === query.name);
  const is_chosen = query.name.toLowerCase() === name?.toLowerCase();
  return html`<tr class="${is_chosen ? "chosen" : ""}${query.is_paused ? " paused" : ""}" data-key="${query.name}">
    <th scope="row"><a href="#/queries/${encodeURIComponent(query.name)}">${query.name}</a>${query.is_paused ? html` <span class="tag">paused</span>` : ""}</th>
    <td>${windowOf(plan, query)}</td><td class="num">${told ? whole(told.results) : "–"}</td><td class="num">${told ? rate(told.results_per_s) : "–"}</td>
    <td class="wide">${curve ? sparkline(curve.results_per_s.slice(-120), 88, 22) : ""}</td>
    <td class="num">${told ? duration(told.response_mean_ms) : "–"}</td><td class="num wide">${told ? duration(told.response_p99_ms) : "–"}</td>
    <td class="do">${actions(query, busy)}</td></tr>`;
}

/** A button that does nothing now; it keeps the focus, which a disabled one loses. */
const off = (is_off) => (is_off ? html`aria-disabled="true"` : "");

function actions(query, busy) {
  const is_off = off(busy.has(query.name));
  const word = query.is_paused ? "resume" : "pause";
  return html`<button type="button" data-action="${word}" data-name="${query.name}" ${is_off} aria-label="${word} ${query.name}">${query.is_paused ? "Resume" : "Pause"}</button>
    <button type="button" class="danger" data-action="drop" data-name="${query.name}" ${is_off} aria-label="drop ${query.name}">Drop</button>`;
}

/** A query's window as the plan has it; that of one that is paused stands in its text. */
function windowOf(plan, { name, is_paused, text }) {
  for (const group of plan.groups) for (const query of group.queries) if (query.name === name) return query.window_text || "–";
  return (is_paused && text.match(/\bWINDOW\s+(\d+\s+\w+)/i)?.[1].toLowerCase()) || "–";
}

function queryDetail(query, state, width) {
  const { history, stats, tail } = state;
  const colour = Math.max(stats.queries.findIndex((one) => one.query === query.name), 0);
  const mine = history.queries.find((one) => one.query === query.name);
  const half = Math.max((width >= 900 ? (width - 16) / 2 : width) - 34, 240);
  const chart = (id, label, values, show, log = false) => lineChart({ id, label, at: history.at_s, width: half, height: 150, show, log, series: mine ? [{ name: query.name, colour, values }] : [] });
  const is_wide = isWide(mine ?? { results_per_s: [] });
  return html`<section class="card detail" aria-labelledby="detail-title" data-key="detail ${query.name}"><header><h2 id="detail-title"><i class="dot c${colour % COLOURS}"></i>${query.name}</h2><p class="muted">${windowOf(state.plan, query)}, to ${query.sink}</p><span class="do">${actions(query, state.busy)}</span></header>
    <pre class="code" tabindex="0">${query.text}</pre>
    <div class="two bare"><div><h3>Results per second${is_wide ? ", logarithmic" : ""}</h3>${chart("one-results", "Results per second", mine?.results_per_s ?? [], rate, is_wide)}</div>
    <div><h3>Response time, p99</h3>${chart("one-response", "Response time", mine?.response_p99_ms ?? [], duration)}</div></div></section>
    ${tailCard(query, tail)}`;
}

function tailCard(query, tail) {
  const columns = tail.columns.length ? tail.columns : query.columns.map((one) => one.split(" ")[0]);
  return html`<section class="card tail" aria-labelledby="tail-title" data-key="tail ${query.name}"><header><h2 id="tail-title">Latest results</h2>
    <p class="muted" id="tail-state">${tail.message || (tail.is_on ? `${whole(tail.seen)} rows seen, newest first` : "held still")}</p>
    <button type="button" data-action="tail">${tail.is_on ? "Hold still" : "Follow"}</button></header>
    <div class="scroll rows" tabindex="0" role="group" aria-label="Latest rows of ${query.name}"><table><thead><tr><th class="num" title="micro-batch">batch</th>${columns.map((one, place) => html`<th class="${isNumber(tail.rows[0]?.values[place]) ? "num" : ""}">${one}</th>`)}</tr></thead>
    <tbody>${tail.rows.map((row) => html`<tr data-key="${row.key}"><td class="num muted">${row.batch}</td>${row.values.map((value) => html`<td class="${isNumber(value) ? "num" : ""}">${cell(value)}</td>`)}</tr>`)}</tbody></table>
    ${tail.rows.length ? "" : html`<p class="muted empty">${tail.message ? "" : "No rows yet."}</p>`}</div></section>`;
}

const isNumber = (value) => typeof value === "number" || typeof value === "bigint";
const short = (value) => Number(Math.abs(value) < 1 ? value.toPrecision(4) : value.toFixed(4));
const cell = (value) => (value === null ? "NULL" : typeof value === "number" && !Number.isInteger(value) ? short(value) : String(value));

export function sqlView(state) {
  const { checked, explained, busy } = state;
  const names = checked?.adds?.join(", ");
  const said = !state.text.trim() ? "Write CREATE QUERY name AS SELECT ... WINDOW 10 SECONDS." : checked === null ? "Checking ..." : checked.ok ? (names ? `Ready: adds ${names}.` : "Ready.") : checked.problem.message;
  const can = checked?.ok && !busy.has("sql");
  return html`<div class="two sql"><section class="card" aria-labelledby="sql-title"><header><h2 id="sql-title">SQL</h2><p class="muted">checked as you type</p></header>
    ${EDITOR}
    <p class="verdict ${checked === null ? "" : checked.ok ? "good" : "bad"}" id="verdict">${said}</p>
    <div class="buttons"><button type="button" class="primary" data-action="add" ${off(!can)}>${busy.has("sql") ? "Adding ..." : "Add query"}</button>
    <button type="button" data-action="explain" ${off(!checked?.ok)}>Explain</button><span class="muted wide keys">Ctrl+Enter adds</span></div></section>
    <section class="card" aria-labelledby="streams-title"><header><h2 id="streams-title">Streams</h2></header>
    <ul class="streams">${state.plan.streams.map((stream) => html`<li><b>${stream.name}</b><span class="muted"> by ${stream.time}${stream.max_delay ? `, up to ${stream.max_delay} out of order` : ""}</span><code>${stream.columns.join(", ")}</code></li>`)}</ul>
    <h3>Begin with</h3><div class="buttons">${samples(state.plan).map((sample) => html`<button type="button" data-action="sample" data-text="${sample.text}">${sample.title}</button>`)}</div></section></div>
    <section class="card" aria-labelledby="explain-title"><header><h2 id="explain-title">${explained ? "Explained" : "The plan, explained"}</h2></header><pre class="code explained" tabindex="0">${explained || state.explainedAll || "…"}</pre></section>`;
}

/** Texts to begin with, made of the streams there are. */
function samples(plan) {
  const [one, other] = plan.streams;
  if (!one) return [];
  const column = (stream) => stream.columns.map((text) => text.split(" ")[0]);
  const found = [{ title: "a selection", text: `CREATE QUERY selected AS\nSELECT ${column(one).slice(0, 3).join(", ")}\nFROM ${one.name};` }];
  const shared = other && column(one).find((name) => column(other).includes(name) && name !== one.time);
  if (shared) {
    found.unshift({ title: "a join", text: `CREATE QUERY joined AS\nSELECT a.${shared}, a.${one.time} AS since\nFROM ${one.name} a, ${other.name} b\nWHERE a.${shared} = b.${shared}\nWINDOW 10 SECONDS;` });
    found.push({ title: "an aggregate", text: `CREATE QUERY counted AS\nSELECT a.${shared}, COUNT(*) AS pairs\nFROM ${one.name} a, ${other.name} b\nWHERE a.${shared} = b.${shared}\nGROUP BY a.${shared}\nWINDOW 30 SECONDS;` });
  }
  return found;
}

export function runtimeView(state) {
  const { stats, pipeline } = state;
  const settings = pipeline.settings;
  const unknown = Object.entries(stats).filter(([name, value]) => !KNOWN.has(name) && value !== null && !(Array.isArray(value) && !value.length));
  return html`${figures(state)}
  ${card("Streams", table(stats.streams.map((one) => ({ ...one, behind_ms: one.is_idle ? "idle" : one.behind_ms })), ["stream", "tuples_per_s", "lag_ms", "behind_ms", "late", "malformed", "tuples"]))}
  <div class="packed">
    ${card("Backlog of each window", backlog(stats.windows))}
    ${card("Shards", shards(stats.shards))}
    ${card("Scheduler", scheduler(stats, settings))}
    ${stats.ordering.length ? card("In-order execution", orderings(stats.ordering)) : ""}
    ${stats.trees.length ? card("Overload and freshness", treesMarkup(stats.trees)) : ""}
    ${decisions(stats, pipeline)}
    ${stats.stage_ms.length ? card("Last micro-batch", bars(stats.stage_ms.map(([name, value]) => ({ name, value, text: duration(value) })), "by stage, the slowest shard")) : ""}
    ${stats.spark ? card("Spark", sparkCard(stats.spark)) : ""}
    ${stats.orders.length ? card("Join orders", table(stats.orders.map((one) => ({ "new tuples of": one.stream, "go through": one.order.filter((name) => name !== one.stream).join(", ") })))) : ""}
    ${unknown.map(([name, value]) => card(words(name).replace(/^./, (one) => one.toUpperCase()), generic(name, value)))}
    ${card("Settings", html`<div class="scroll short" tabindex="0" role="group" aria-label="Settings">${table(Object.entries(settings).map(([name, value]) => ({ setting: name, value: value || "–" })))}</div>`)}
  </div>
  ${stats.graph?.operators.length ? card("Operators", table(stats.graph.operators, ["operator", "text", "uses", "queue_bytes", "turns", "selectivity", "service_us", "input_bytes", "output_bytes", "tuples_per_s", "freed_bytes_per_s"])) : ""}`;
}

const card = (title, content) => html`<section class="card" aria-label="${title}" data-key="card ${title}"><header><h2>${title}</h2></header>${content}</section>`;

function table(rows, names = Object.keys(rows[0] ?? {})) {
  if (!rows.length) return html`<p class="muted">None.</p>`;
  const label = `Table: ${names.map(words).join(", ")}`;
  const kind = (name) => (rows.some((row) => typeof row[name] === "number") ? "num" : "text");
  return html`<div class="scroll" tabindex="0" role="group" aria-label="${label}"><table><thead><tr>${names.map((name) => html`<th class="${kind(name)}">${words(name)}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr>${names.map((name) => html`<td class="${kind(name)}${(name === "late" || name === "malformed") && row[name] ? " alarm" : ""}">${valueText(name, row[name])}</td>`)}</tr>`)}</tbody></table></div>`;
}

function valueText(name, value) {
  if (Array.isArray(value)) return value.map((one) => valueText(name, one)).join(", ");
  if (value !== null && typeof value === "object") return Object.entries(value).map(([key, one]) => `${words(key)} ${valueText(key, one)}`).join(" ");
  return byName(name, value);
}

function bars(rows, note, most = Math.max(...rows.map((row) => row.value), 1e-9)) {
  if (!rows.length) return html`<p class="muted">None.</p>`;
  return html`${note ? html`<p class="muted note">${note}</p>` : ""}<ul class="bars">${rows.map((row) => html`<li><span title="${row.title ?? row.name}">${row.name}</span><svg height="8" role="presentation"><rect class="rail" width="100%" height="8" rx="4"/><rect class="level" width="${((row.value / most) * 100).toFixed(1)}%" height="8" rx="4"/></svg><b>${row.text}</b></li>`)}</ul>`;
}

function backlog(windows) {
  const groups = Map.groupBy(windows, (one) => one.group);
  const level = Math.max(...windows.map((one) => one.backlog_tuples), 1e-9);
  const rows = (some) => some.map((one) => ({ name: one.window, value: one.backlog_tuples, text: compact(one.backlog_tuples) }));
  const shown = [...groups].map(([group, some]) => html`${groups.size > 1 ? html`<h3 class="name">${group}</h3>` : ""}${bars(rows(some), "", level)}`);
  return windows.length ? html`<p class="muted note">tuples that wait to scan a window next</p>${shown}` : bars([]);
}

function shards(some) {
  const load = bars(some.map((one) => ({ name: `shard ${one.shard}`, value: one.busy_ms, text: duration(one.busy_ms) })), "work in the last micro-batch");
  const held = some.map((one) => ({ shard: one.shard, held: one.held_tuples, memory_bytes: one.held_bytes, waiting: one.waiting_tuples + one.pending_tuples, output_bytes: one.output_bytes }));
  return html`${load}${table(held.map((one) => ({ ...one, shard: String(one.shard) })), ["shard", "held", "memory_bytes", "waiting", "output_bytes"])}`;
}

function scheduler(stats, settings) {
  const { graph } = stats;
  const rows = [["window policy", settings.policy], ["budget", settings.budget && settings.budget !== "None" ? settings.budget : "none: all is done at once"]];
  if (stats.probes_allowed !== null) rows.push(["probes", `${whole(stats.probes)} of ${whole(stats.probes_allowed)}`]);
  if (graph) {
    rows.push(["operator strategy", `${graph.strategy}, ${graph.fairness}`], ["mode", `${graph.mode}, ${plural(graph.mode_changes, "change")}`], ["queues", `${bytes(graph.queue_bytes)} of ${bytes(graph.limit_bytes)}`]);
  }
  rows.push(["sources wait", graph?.is_throttled ? "yes, now" : "no"], ["overrun micro-batches", whole(stats.throttled_batches)]);
  return facts(rows);
}

const facts = (rows) => html`<dl class="facts">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/** How each join keeps its results in order. */
function orderings(some) {
  const waits = (one) => (one.waits_for.length ? one.waits_for.join(", ") : "no stream");
  return html`${some.map((one) => html`<div class="tree" data-key="ordering ${one.group}">${some.length > 1 ? html`<h3>${one.group}</h3>` : ""}${facts([
    ["approach", one.approach], ["waits for", waits(one)], ["results held", `${whole(one.held_results)}, ${bytes(one.held_bytes)}`],
    ["response, measured", duration(one.response_ms)], ["expected of Sync-Filter", duration(one.sync_filter_ms)], ["expected of Filter-Order", duration(one.filter_order_ms)],
  ])}</div>`)}`;
}

/** Names of queries, of which there may be hundreds. */
function fewNames(text) {
  const names = text.split(", ");
  return names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : text;
}

function decisions(stats, pipeline) {
  const made = pipeline.changes.map((one) => ({ at: one.at_s, text: `${one.what} ${fewNames(one.query)}` })).reverse();
  const switches = [...stats.switches].reverse();
  const none = html`<p class="muted">No join order was changed, and no query since this service started.</p>`;
  const list = html`<ul class="log" tabindex="0" aria-label="Log">${switches.slice(0, 12).map((one) => html`<li>${one}</li>`)}${made.slice(0, 30).map((one) => html`<li><time>${clock(one.at)}</time> ${one.text}</li>`)}</ul>`;
  return card("Decisions and changes", switches.length || made.length ? list : none);
}

function sparkCard(spark) {
  const phases = spark.duration_ms.filter(([name]) => name !== "triggerExecution").map(([name, value]) => ({ name, value, text: duration(value) }));
  return html`${facts([["rows in", whole(spark.input_rows)], ["processed", rate(spark.processed_rows_per_s)], ["state", `${bytes(spark.state_bytes)}, ${plural(spark.state_keys, "entry", "entries")}`]])}${bars(phases)}`;
}

/** Statistics that have no place of their own: numbers as facts, lists of things as tables. */
function generic(name, value) {
  if (Array.isArray(value)) {
    if (typeof value[0] === "object" && !Array.isArray(value[0])) return table(value);
    return html`<ul class="log" tabindex="0" aria-label="Log">${value.map((one) => html`<li>${Array.isArray(one) ? one.join(" ") : String(one)}</li>`)}</ul>`;
  }
  if (typeof value !== "object") return facts([[words(name), byName(name, value)]]);
  const plain = Object.entries(value).filter(([, one]) => one === null || typeof one !== "object");
  const rest = Object.entries(value).filter(([, one]) => one !== null && typeof one === "object" && !(Array.isArray(one) && !one.length));
  return html`${facts(plain.map(([key, one]) => [words(key), byName(key, one)]))}${rest.map(([key, one]) => html`<h3>${words(key)}</h3>${generic(key, one)}`)}`;
}
