// Markup in, document out: a view is drawn anew every second, and only what differs is touched, so that focus, selected
// text and scrolling stay. Listeners are on the document: what is drawn says data-action, and nothing else.

import { escape } from "./format.js";

class Markup {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

const plain = (value) => {
  if (value === null || value === undefined || value === false) return "";
  if (Array.isArray(value)) return value.map(plain).join("");
  return value instanceof Markup ? value.text : escape(value);
};

/** A template whose values are escaped, unless they are markup themselves. */
export function html(parts, ...values) {
  return new Markup(parts.reduce((text, part, place) => text + part + (place < values.length ? plain(values[place]) : ""), ""));
}

/** Makes an element's content this markup. */
export function draw(element, markup) {
  const wanted = document.createElement("template");
  wanted.innerHTML = markup.toString();
  mend(element, wanted.content);
}

function mend(now, wanted) {
  const keyed = new Map();
  for (const child of now.childNodes) if (child.dataset?.key) keyed.set(child.dataset.key, child);
  let place = now.firstChild;
  for (const next of [...wanted.childNodes]) {
    const key = next.dataset?.key;
    const match = key ? keyed.get(key) : place && !place.dataset?.key ? place : null;
    if (match && same(match, next)) {
      if (match !== place) now.insertBefore(match, place);
      else place = place.nextSibling;
      update(match, next);
    } else {
      now.insertBefore(next, place);
    }
  }
  while (place) { const after = place.nextSibling; place.remove(); place = after; }
}

const same = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName;

function update(one, other) {
  if (one.nodeType !== Node.ELEMENT_NODE) {
    if (one.nodeValue !== other.nodeValue) one.nodeValue = other.nodeValue;
    return;
  }
  if (one.dataset?.own !== undefined && other.dataset?.own !== undefined) return; // looks after itself
  for (const { name, value } of other.attributes) if (one.getAttribute(name) !== value) one.setAttribute(name, value);
  for (const { name } of [...one.attributes]) if (!other.hasAttribute(name)) one.removeAttribute(name);
  mend(one, other);
}
