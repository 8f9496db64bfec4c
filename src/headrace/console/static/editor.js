// The SQL editor: a text area over a coloured copy of its text. The text is checked by the service as it is typed; what
// is wrong is underlined, and the message stands under that very word.

import { html } from "./dom.js";
import { post } from "./api.js";
import { escape } from "./format.js";

const WAIT_MS = 220;
const KEYWORDS = new Set(
  ("CREATE QUERY AS SELECT FROM JOIN ON WHERE AND OR NOT WINDOW INTO DROP EXPLAIN GROUP BY HAVING IN IS NULL LIKE BETWEEN " +
    "CASE WHEN THEN ELSE END DISTINCT FILTER RANGE ROWS TRUE FALSE CAST INTERVAL INNER CROSS " +
    "EMIT EARLY OVERLOAD ADAPT DEFER FRESHNESS " +
    "MILLISECOND MILLISECONDS SECOND SECONDS MINUTE MINUTES HOUR HOURS DAY DAYS").split(" "),
);
const TOKEN = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\b\d+(?:\.\d+)?\b)|([A-Za-z_]\w*)/g;

export const EDITOR = html`<div class="editor" data-own>
  <div class="page">
    <pre class="copy" aria-hidden="true"></pre>
    <textarea id="sql" spellcheck="false" autocapitalize="off" autocomplete="off" aria-label="SQL" aria-describedby="sql-problem"></textarea>
    <div class="problem" id="sql-problem" role="alert" hidden></div>
  </div>
</div>`;

export class Editor {
  /** `onChecked` is told what the service said of the text, or null while it is not known. */
  constructor(onChecked) {
    this.text = "";
    this.checked = null;
    this.onChecked = onChecked;
    this.asked = 0;
    this.timer = 0;
  }

  /** Takes the elements of EDITOR, once they are in the document. */
  attach(root) {
    this.area = root.querySelector("textarea");
    this.copy = root.querySelector(".copy");
    this.problem = root.querySelector(".problem");
    this.area.value = this.text;
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("keydown", (event) => { if (event.key === "Escape") this.hideProblem(); });
    this.problem.addEventListener("click", () => { this.hideProblem(); this.area.focus(); }); // what is under it can be read
    this.colour();
    this.place();
  }

  set(text) {
    this.text = text;
    if (this.area) this.area.value = text;
    this.changed(0);
  }

  changed(wait = WAIT_MS) {
    if (this.area) this.text = this.area.value;
    this.checked = null;
    this.asked += 1; // what is being asked is of another text
    this.hideProblem();
    this.colour();
    this.onChecked(null);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), wait);
  }

  async check() {
    const mine = this.asked;
    if (!this.text.trim()) return;
    let told;
    try {
      told = await post("/api/check", { sql: this.text });
    } catch (error) {
      told = { ok: false, adds: [], problem: { message: error.message } };
    }
    if (mine !== this.asked) return;
    this.checked = told;
    this.colour();
    this.place();
    this.onChecked(told);
  }

  /** The offsets of the problem in the text, or null. Lines and columns are counted in characters, as Python does. */
  span() {
    const problem = this.checked?.problem;
    if (!problem?.line) return null;
    const lines = this.text.split("\n");
    let start = 0;
    for (let line = 0; line < problem.line - 1; line += 1) start += (lines[line] ?? "").length + 1;
    const letters = Array.from(lines[problem.line - 1] ?? "");
    const before = letters.slice(0, problem.column - 1).join("").length;
    const word = letters.slice(problem.column - 1, problem.column - 1 + problem.length).join("");
    return [start + before, start + before + Math.max(word.length, 1)];
  }

  colour() {
    if (!this.copy) return;
    const span = this.span();
    let text = "";
    let done = 0;
    const put = (end, kind) => {
      for (const [from, to, wrong] of cut(done, end, span)) {
        const part = this.text.slice(from, to) || (wrong ? " " : "");
        const classes = [kind, wrong ? "wrong" : ""].filter(Boolean).join(" ");
        text += classes ? `<span class="${classes}">${escape(part)}</span>` : escape(part);
      }
      done = end;
    };
    for (const found of this.text.matchAll(TOKEN)) {
      put(found.index, "");
      put(found.index + found[0].length, kindOf(found));
    }
    put(this.text.length, "");
    if (span && span[0] >= this.text.length) text += '<span class="wrong"> </span>';
    this.copy.innerHTML = `${text}\n`;
    this.area.setAttribute("aria-invalid", String(Boolean(this.checked && !this.checked.ok)));
    this.area.style.height = `${Math.max(this.copy.scrollHeight, 180)}px`;
  }

  hideProblem() {
    if (this.problem) this.problem.hidden = true;
  }

  /** Puts the message under the word. */
  place() {
    const problem = this.checked?.problem;
    if (!this.problem) return;
    this.problem.hidden = !problem;
    if (!problem) return;
    this.problem.innerHTML = html`<b>${problem.message}</b>${problem.hint ? html`<span>${problem.hint}</span>` : ""}`.toString();
    const word = this.copy.querySelector(".wrong");
    const page = this.copy.parentElement.getBoundingClientRect();
    const at = word?.getClientRects()[0] ?? { left: page.left + 14, bottom: page.top + this.copy.scrollHeight - 10 };
    const most = page.width - this.problem.offsetWidth - 8;
    const left = Math.max(Math.min(at.left - page.left - 10, most), 4);
    this.problem.style.left = `${left}px`;
    this.problem.style.top = `${at.bottom - page.top + 6}px`;
    this.problem.style.setProperty("--nib", `${Math.max(at.left - page.left - left, 6)}px`);
  }
}

function kindOf(found) {
  if (found[1] !== undefined) return "comment";
  if (found[2] !== undefined) return "string";
  if (found[3] !== undefined) return "name";
  if (found[4] !== undefined) return "number";
  return KEYWORDS.has(found[5].toUpperCase()) ? "keyword" : "";
}

/** A stretch as pieces in and out of the wrong span. */
function cut(from, to, span) {
  if (!span || span[1] <= from || span[0] >= to) return from < to ? [[from, to, false]] : [];
  const [begin, end] = [Math.max(from, span[0]), Math.min(to, span[1])];
  return [[from, begin, false], [begin, end, true], [end, to, false]].filter(([a, b]) => a < b);
}
