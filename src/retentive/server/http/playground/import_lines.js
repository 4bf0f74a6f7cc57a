/** Memories out of a file: JSONL a piece at a time, or one JSON array. */

const LARGEST_ARRAY = 100_000_000; // an array can only be parsed whole, and a page has one thread
const HASHED_AT_ONCE = 1 << 20;

/**
 * @typedef {object} Line
 * @property {number} number  its line, or its place in the array, from 1
 * @property {object} [memory]  what it says
 * @property {string} [reason]  why it cannot be read
 * @property {string} [raw]  what it says instead
 * @property {number} done  how much of the file has been read with it, from 0 to 1
 */

/**
 * What is in a file, one memory after the other.
 * @param {File} file
 * @returns {AsyncGenerator<Line>}
 */
export async function* readLines(file) {
  const whole = await wholeArray(file);
  if (whole === null) {
    yield* readJsonl(file);
    return;
  }
  for (const [at, memory] of whole.entries()) {
    yield { number: at + 1, done: (at + 1) / whole.length, ...checked(memory) };
  }
}

async function wholeArray(file) {
  const start = (await file.slice(0, 1024).text()).trimStart();
  const named = /\.json$/i.test(file.name);
  if (!start.startsWith("[") && !named) return null;
  if (file.size > LARGEST_ARRAY) {
    throw new Error("This array is too large to be read at once; write it as JSONL, one object a line.");
  }
  try {
    const value = JSON.parse(await file.text());
    if (Array.isArray(value)) return value;
    return Array.isArray(value?.memories) ? value.memories : [value];
  } catch (error) {
    if (start.startsWith("[")) throw new Error(`This is not a JSON array: ${error.message}`);
    return null;
  }
}

async function* readJsonl(file) {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let number = 0;
  let read = 0;
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines) {
      number += 1;
      read += line.length + 1;
      const text = number === 1 ? line.replace(/^\uFEFF/, "") : line;
      // Characters are not bytes, but near enough for a bar.
      if (text.trim()) yield { number, done: Math.min(1, read / file.size), ...parsed(text) };
    }
    if (done) return;
  }
}

function parsed(text) {
  try {
    return checked(JSON.parse(text));
  } catch {
    return { reason: "this is not JSON", raw: text };
  }
}

function checked(memory) {
  const isObject = typeof memory === "object" && memory !== null && !Array.isArray(memory);
  return isObject ? { memory } : { reason: "a memory is an object with a text" };
}

/**
 * A name for the content of a file, the same whenever the same bytes come again.
 *
 * Not crypto.subtle: that needs the whole file in one piece, and is missing on pages that came over plain HTTP from
 * another machine. Two files of one name would be refused by the server, which compares what was sent.
 * @param {File} file
 */
export async function contentHash(file) {
  const parts = [0x9e3779b9, 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f];
  for (let at = 0; at < file.size; at += HASHED_AT_ONCE) {
    mix(parts, new Uint8Array(await file.slice(at, at + HASHED_AT_ONCE).arrayBuffer()));
  }
  return parts.map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("") + `-${file.size}`;
}

/** A short name for a list of numbers. */
export function numbersHash(numbers) {
  const parts = [1, 2, 3, 4];
  mix(parts, new Uint8Array(Uint32Array.from(numbers).buffer));
  return parts.map((part) => (part >>> 0).toString(36)).join("");
}

function mix(parts, bytes) {
  let [a, b, c, d] = parts;
  for (const byte of bytes) {
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul((b << 5) ^ (b >>> 27) ^ byte ^ a, 0x5bd1e995);
    c = Math.imul(c ^ (b >>> 15) ^ byte, 0x2c1b3c6d);
    d = (d + (a ^ (c >>> 13)) + byte) | 0;
  }
  parts.splice(0, 4, a, b, c, d);
}
