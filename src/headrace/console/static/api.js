// Asking the service. The token, where there is one, is kept for this tab and shown in a header, never in an address.

const KEY = "headrace-token";
let askForToken = async () => null;

/** Who is asked when the service wants a token, and told whether the last one was wrong. */
export function onTokenWanted(ask) { askForToken = ask; }

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

let asking = null;

/** A token as it is typed; one that no header can carry is none, so it is asked for again. */
async function asked(was_wrong) {
  const token = await askForToken(was_wrong);
  return token && !/^[\x20-\x7e]+$/.test(token) ? asked(true) : token;
}

async function wanted() {
  const was_wrong = Boolean(sessionStorage.getItem(KEY));
  asking ??= asked(was_wrong).finally(() => { asking = null; });
  const token = await asking;
  if (!token) {
    sessionStorage.removeItem(KEY);
    throw new Error("a token is required");
  }
  sessionStorage.setItem(KEY, token);
}

/** JSON of rows: whole numbers that JavaScript's own cannot hold are BigInt, where the browser tells how they are written. */
const rowsOf = (text) => JSON.parse(text, (_, value, at) => (
  Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(at?.source) ? BigInt(at.source) : value
));

export async function request(method, path, body, read = (text) => JSON.parse(text)) {
  const options = { method, headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }) };
  if (body !== undefined) options.body = JSON.stringify(body);
  const answer = await fetch(path, options);
  if (answer.status === 401) {
    await wanted();
    return request(method, path, body, read);
  }
  const told = await answer.text().then(read).catch(() => ({}));
  if (!answer.ok) {
    const error = new Error(told.error?.message ?? `the service answered ${answer.status}`);
    error.problem = told.error;
    throw error;
  }
  return told;
}

export const get = (path) => request("GET", path);
export const getRows = (path) => request("GET", path, undefined, rowsOf);
export const post = (path, body) => request("POST", path, body);

/** Follows server-sent events until the signal says stop; begins again when the connection breaks. */
export async function follow(path, signal, onEvent, onState = () => {}) {
  let last = null;
  while (!signal.aborted) {
    try {
      const more = last === null ? {} : { "Last-Event-ID": last };
      const answer = await fetch(path, { headers: headers(more), signal });
      if (answer.status === 401) { await wanted(); continue; }
      if (!answer.ok) {
        const told = await answer.json().catch(() => ({}));
        onState("refused", told.error?.message ?? `the service answered ${answer.status}`);
        return;
      }
      onState("open");
      for await (const one of events(answer.body)) {
        if (one.id !== undefined) last = one.id;
        onEvent(one.event, one.event === "rows" ? rowsOf(one.data) : JSON.parse(one.data));
      }
    } catch (error) {
      if (signal.aborted) return;
      onState("broken", error.message);
    }
    await new Promise((done) => setTimeout(done, 1500));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const told = {};
      for (const line of block.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) told[line.slice(0, at)] = line.slice(at + 2);
      }
      if (told.data !== undefined) yield told;
    }
  }
}
