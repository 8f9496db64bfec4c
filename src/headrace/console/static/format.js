// How numbers and texts look. Pure functions.

export function escape(text) {
  return String(text).replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}

/** A number in three digits or so: 1,234 becomes 1.2k. */
export function compact(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
  return value.toFixed(size >= 10 ? 1 : size >= 0.05 ? 2 : 0).replace(/\.0+$/, "");
}

function trim(value) {
  return value.toFixed(Math.abs(value) >= 100 ? 0 : 1).replace(/\.0$/, "");
}

export const whole = (value) => Math.round(value).toLocaleString("en");
export const rate = (value) => `${compact(value)}/s`;

/** Milliseconds as a time that people read. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  const sign = ms < 0 ? "-" : "";
  const size = Math.abs(ms);
  if (size === 0) return "0 ms";
  if (size < 0.1) return `${sign}${(size * 1000).toPrecision(2)} µs`;
  if (size < 10) return `${sign}${size.toFixed(1)} ms`;
  if (size < 1000) return `${sign}${Math.round(size)} ms`;
  if (size < 60_000) return `${sign}${trim(size / 1000)} s`;
  if (size < 3_600_000) return `${sign}${trim(size / 60_000)} min`;
  if (size < 86_400_000) return `${sign}${trim(size / 3_600_000)} h`;
  return `${sign}${whole(size / 86_400_000)} d`;
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = count;
  while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit += 1; }
  return `${unit || !Number.isInteger(size) ? trim(size) : size} ${units[unit]}`;
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

/** A text that fits in so many characters. */
export function fitted(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.max(most - 1, 1))}…`;
}

/** A name like held_tuples as words. */
export const words = (name) => name.replace(/_per_s$/, "/s").replace(/_(ms|s|us|bytes)$/, "").replace(/_/g, " ");

/** A window's text, shorter: "10 minutes" becomes "10 min". */
export function brief(text) {
  return text.replace(/ milliseconds?/g, " ms").replace(/ seconds?/g, " s").replace(/ minutes?/g, " min").replace(/ hours?/g, " h").replace(/ days?/g, " d");
}

/** A number of a statistic whose name tells its unit. */
export function byName(name, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (name.endsWith("_ms")) return duration(value);
  if (name.endsWith("_us")) return duration(value / 1000);
  if (name.endsWith("_per_s")) return rate(value);
  if (name.endsWith("_s")) return duration(value * 1000);
  if (name.endsWith("_bytes")) return bytes(value);
  return Number.isInteger(value) ? whole(value) : compact(value);
}
