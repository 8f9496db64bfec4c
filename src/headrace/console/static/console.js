// The console: what is known, which view is shown, what is done. The service is asked; nothing is computed from rows.

import { follow, get, getRows, onTokenWanted, post, request } from "./api.js";
import { hover, walk } from "./charts.js";
import { draw, html } from "./dom.js";
import { Editor } from "./editor.js";
import { noticeMarkup, planView, queriesView, runtimeView, sqlView, statusMarkup } from "./views.js";

const SAMPLES = 900;
const TAIL_ROWS = 200;
const FRESH_MS = 6000;
const VIEWS = { plan: planView, queries: queriesView, sql: sqlView, runtime: runtimeView };

const state = {
  view: "plan", name: null, filter: "", chosen: null, fresh: null, connection: "connecting", stats: null, plan: null, queries: [], pipeline: null,
  history: { at_s: [], tuples_per_s: [], results_per_s: [], batch_ms: [], backlog_tuples: [], held_tuples: [], queries: [] },
  busy: new Set(), text: "", checked: null, explained: "", explainedAll: "", tail: emptyTail(),
};
const editor = new Editor((checked) => {
  state.text = editor.text;
  state.checked = checked;
  if (checked === null) state.explained = "";
  show();
});

// --- what is known

async function load() {
  [state.plan, state.queries, state.pipeline, state.stats, state.history] = await Promise.all(
    ["/api/plan", "/api/queries", "/api/pipeline", "/api/stats", "/api/history"].map(get),
  );
  state.known = names(state.stats);
  const last = state.history.at_s.at(-1);
  state.ahead_s = last === undefined ? 0 : last - Date.now() / 1000; // the service's clock may not be this machine's
  show();
}

async function reload() {
  [state.plan, state.queries, state.pipeline] = await Promise.all(["/api/plan", "/api/queries", "/api/pipeline"].map(get));
  if (state.view === "sql") state.explainedAll = (await get("/api/explain")).text;
  show();
}

const names = (stats) => stats.queries.map((one) => one.query).join("\n");

function take(stats) {
  state.stats = stats;
  remember(stats);
  if (names(stats) !== state.known) {
    state.known = names(stats);
    reload().catch(complain);
  }
  show();
}

/** Adds a look to the curves. */
function remember(stats) {
  const { history } = state;
  const sum = (some, name) => some.reduce((total, one) => total + one[name], 0);
  const put = (list, value) => { list.push(value); if (list.length > SAMPLES) list.shift(); };
  const before = history.at_s.length;
  const told = new Map(stats.queries.map((one) => [one.query, one]));
  for (const name of told.keys()) {
    if (!history.queries.some((one) => one.query === name)) {
      const none = () => Array(before).fill(null);
      history.queries.push({ query: name, results_per_s: none(), response_mean_ms: none(), response_p99_ms: none() });
    }
  }
  history.queries = history.queries.filter((one) => told.has(one.query) || one.results_per_s.some((value) => value !== null));
  put(history.at_s, Math.max(Date.now() / 1000 + state.ahead_s, history.at_s.at(-1) ?? 0));
  put(history.tuples_per_s, sum(stats.streams, "tuples_per_s"));
  put(history.results_per_s, sum(stats.queries, "results_per_s"));
  put(history.batch_ms, stats.batch_ms);
  put(history.backlog_tuples, sum(stats.windows, "backlog_tuples"));
  put(history.held_tuples, sum(stats.shards, "held_tuples"));
  for (const one of history.queries) {
    for (const name of ["results_per_s", "response_mean_ms", "response_p99_ms"]) put(one[name], told.get(one.query)?.[name] ?? null);
  }
}

// --- what is shown

const view = document.getElementById("view");

function show() {
  draw(document.getElementById("notice"), noticeMarkup(state));
  if (!state.stats || !state.plan) return;
  const style = getComputedStyle(view);
  const width = Math.floor(view.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
  draw(document.getElementById("status"), statusMarkup(state));
  drawView(VIEWS[state.view](state, width));
  const area = view.querySelector(".editor");
  if (area && !area.dataset.attached) {
    area.dataset.attached = "yes";
    editor.attach(area);
  }
}

/** Where what has the focus goes away (a link to another view, a row), the view has it: the keyboard goes on from there. */
function drawView(markup) {
  const had = view.contains(document.activeElement);
  draw(view, markup);
  if (had && !view.contains(document.activeElement)) view.focus({ preventScroll: true });
}

/** A name out of an address; one that was written by hand may not be encoded. */
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function route() {
  const [, name = "plan", rest = ""] = location.hash.split("/");
  const before = `${state.view}/${state.name}`;
  state.view = name in VIEWS ? name : "plan";
  state.name = rest ? decoded(rest) : null;
  state.chosen = null;
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${state.name ?? state.view} · Headrace`;
  if (before !== `${state.view}/${state.name}`) {
    drawView(html``);
    followTail(state.view === "queries" ? state.name : null);
    if (state.view === "sql") get("/api/explain").then((told) => { state.explainedAll = told.text; show(); }).catch(complain);
    if (!state.name) window.scrollTo(0, 0);
  }
  show();
  if (state.name && state.view === "queries") document.getElementById("detail-title")?.scrollIntoView({ block: "nearest" });
}

// --- the latest rows of a query

function emptyTail() {
  return { name: null, is_on: true, columns: [], rows: [], seen: 0, message: "", stop: null };
}

function followTail(name) {
  state.tail.stop?.abort();
  state.tail = emptyTail();
  if (!name) return;
  const tail = state.tail;
  tail.name = name;
  tail.stop = new AbortController();
  const path = `/api/queries/${encodeURIComponent(name)}/results`;
  const begin = async () => {
    try {
      const told = await getRows(`${path}?limit=50`);
      for (const batch of told.batches) putRows(tail, batch);
      const last = told.batches.at(-1)?.batch ?? -1; // none yet: what comes between the two requests is not missed
      show();
      await follow(`${path}/stream?limit=50&after=${last}`, tail.stop.signal, (kind, batch) => {
        if (kind === "rows" && tail.is_on) putRows(tail, batch);
        if (kind === "dropped") { tail.message = "the query was dropped"; tail.stop.abort(); }
        show();
      }, (kind, message) => { if (kind === "refused") tail.message = message; });
    } catch (error) {
      if (!tail.stop.signal.aborted) tail.message = error.message;
    }
    show();
  };
  begin();
}

function putRows(tail, batch) {
  const is_same = String(tail.columns) === String(batch.columns);
  if (!is_same) tail.rows = []; // of an earlier query of that name, which had other columns
  tail.columns = batch.columns;
  const rows = batch.rows.map((values, place) => ({ key: `${batch.batch}-${place}`, batch: batch.batch, values }));
  tail.rows = [...rows.reverse(), ...tail.rows].slice(0, TAIL_ROWS);
  tail.seen += batch.total;
}

// --- what is done

const doing = {
  theme() {
    const root = document.documentElement;
    const is_dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = is_dark ? "light" : "dark";
    localStorage.setItem("headrace-theme", root.dataset.theme);
  },
  pause: (button) => change(button.dataset.name, "POST", "/pause", "is paused"),
  resume: (button) => change(button.dataset.name, "POST", "/resume", "goes on"),
  async drop(button) {
    const { name } = button.dataset;
    if (await ask(`Drop ${name}?`, "It leaves the shared plan with the next micro-batch. Its results stay where they are.", "Drop")) {
      await change(name, "DELETE", "", "was dropped");
      if (state.name?.toLowerCase() === name.toLowerCase()) location.hash = "#/queries";
    }
  },
  skip() { view.focus(); },
  tail() { state.tail.is_on = !state.tail.is_on; show(); },
  sample(button) { editor.set(button.dataset.text); editor.area.focus(); },
  async explain() {
    state.explained = (await post("/api/explain", { sql: editor.text })).text;
    show();
    document.querySelector(".explained")?.scrollIntoView({ block: "nearest", behavior: "smooth" });
  },
  async add() {
    if (!state.checked?.ok || state.busy.has("sql")) return;
    const sql = editor.text;
    const is_same = () => editor.text === sql; // a micro-batch is waited for, and more may be typed meanwhile
    state.busy.add("sql");
    show();
    try {
      const { queries } = await post("/api/queries", { sql });
      state.busy.delete("sql");
      const run = queries.length > 3 ? `${queries.length} queries run` : `${queries.join(", ")} ${queries.length === 1 ? "runs" : "run"}`;
      toast(queries.length ? `${run} from the next micro-batch on` : "done");
      state.fresh = queries.at(-1) ?? null;
      setTimeout(() => { state.fresh = null; show(); }, FRESH_MS);
      await reload();
      if (!is_same()) return editor.changed(0);
      editor.set("");
      if (state.view === "sql") location.hash = "#/plan";
    } finally {
      state.busy.delete("sql");
      show();
    }
  },
};

async function change(name, method, what, done) {
  state.busy.add(name);
  show();
  try {
    await request(method, `/api/queries/${encodeURIComponent(name)}${what}`);
    toast(`${name} ${done}`);
    await reload();
  } finally {
    state.busy.delete(name);
    show();
  }
}

function complain(error) { toast(error.message, "bad"); }

function toast(text, kind = "good") {
  const box = document.createElement("p");
  box.className = `toast ${kind}`;
  box.textContent = text;
  document.getElementById("toasts").append(box);
  setTimeout(() => box.remove(), kind === "bad" ? 9000 : 5000);
}

/** A question in a dialog; what was typed, true, or null. */
function ask(title, text, yes, is_token = false) {
  const dialog = document.getElementById("ask");
  const input = document.getElementById("ask-input");
  document.getElementById("ask-title").textContent = title;
  document.getElementById("ask-text").textContent = text;
  document.getElementById("ask-yes").textContent = yes;
  document.getElementById("ask-field").hidden = !is_token;
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  (is_token ? input : document.getElementById("ask-yes")).focus();
  return new Promise((answer) => {
    dialog.addEventListener("close", () => answer(dialog.returnValue === "yes" ? (is_token ? input.value.trim() : true) : null), { once: true });
  });
}

document.getElementById("ask-input").addEventListener("keydown", (event) => {
  if (event.key === "Enter") { event.preventDefault(); document.getElementById("ask").close("yes"); }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-action]");
  if (button?.tagName === "A") event.preventDefault(); // its address is for who has no scripts
  if (button && button.ariaDisabled !== "true") Promise.resolve(doing[button.dataset.action](button)).catch(complain);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && state.view === "sql") {
    event.preventDefault();
    doing.add().catch(complain);
  }
});

document.addEventListener("input", (event) => {
  const { input } = event.target.dataset;
  if (input) { state[input] = event.target.value; show(); }
});

function choose(event) {
  const name = event.target.closest?.("[data-query]")?.dataset.query ?? null;
  if (state.view === "plan" && name !== state.chosen) { state.chosen = name; show(); }
}

document.addEventListener("pointerover", choose);
document.addEventListener("focusin", choose);
document.addEventListener("pointermove", hover);
for (const kind of ["focusin", "focusout", "keydown"]) document.addEventListener(kind, walk);
window.addEventListener("hashchange", route);
new ResizeObserver(() => show()).observe(view);
setInterval(() => { if (state.stats && !document.hidden) reload().catch(() => {}); }, 10_000);

onTokenWanted((was_wrong) => ask("Token", was_wrong ? "That token is not the one. It was given to headrace serve." : "This service asks for a token. It was given to headrace serve.", "Go on", true));
route();

/** Asks until there is an answer, then follows. */
async function begin() {
  for (;;) {
    try {
      await load();
      break;
    } catch (error) {
      state.connection = "broken";
      draw(document.getElementById("status"), statusMarkup(state));
      show();
      complain(error);
      await new Promise((done) => setTimeout(done, 3000));
    }
  }
  if (state.view === "queries" && state.name) route();
  const never = new AbortController().signal;
  await follow("/api/stats/stream", never, (_, stats) => { state.connection = "open"; take(stats); }, (kind) => { state.connection = kind; show(); });
}

begin();
