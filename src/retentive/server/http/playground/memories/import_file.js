/** Read memories from a JSONL or JSON file and send them in batches, with the rejected lines identified. */

const BATCH_SIZE = 200;
const MAX_ARRAY_BYTES = 100_000_000; // an array can only be parsed as a whole, and that blocks the page
const HASH_CHUNK_BYTES = 1 << 20;

/**
 * @typedef {object} Line
 * @property {number} number  the line, or the index in the array, from 1
 * @property {object} [memory]  the parsed object
 * @property {string} [reason]  why it cannot be read
 * @property {string} [raw]  the text that cannot be read
 * @property {number} done  the share of the file read so far, from 0 to 1
 */

/**
 * @typedef {object} Progress
 * @property {number} done  from 0 to 1
 * @property {number} sent  lines that the service accepted
 * @property {number} returned  memories in its responses; fewer than `sent` if some were forgotten after an earlier import
 * @property {{number: number, reason: string, text: string}[]} rejected
 */

/**
 * Whether a file is an export of another program, which the service reads as a whole: a zip archive, or conversations.
 *
 * @param {File} file
 */
export async function isExport(file) {
  const start = await file.slice(0, 65536).text();
  return start.startsWith("PK\x03\x04") || /^\uFEFF?\s*\[[^]*"(mapping|chat_messages)"\s*:/.test(start);
}

/**
 * Import a file. Each batch has an idempotency key made from the content of the file, so a second import adds nothing.
 *
 * @param {File} file
 * @param {object} options
 * @param {(memories: object[], key: string) => Promise<object[]>} options.send  resolves to the stored memories
 * @param {(progress: Progress) => void} options.onProgress
 * @param {AbortSignal} options.signal
 * @param {string} [options.keySuffix]  makes the idempotency keys different from those of earlier imports
 */
export async function importFile(file, { send, onProgress, signal, keySuffix = "" }) {
  const progress = { done: 0, sent: 0, returned: 0, rejected: [] };
  const key = (await contentHash(file)) + keySuffix;
  let batch = [];
  let batchNumber = 0;
  const flush = async () => {
    if (batch.length) await sendLines(batch, `${key}-${batchNumber}`, send, progress, signal);
    progress.done = batch.at(-1)?.done ?? progress.done;
    batchNumber += 1;
    batch = [];
    onProgress(progress);
  };
  for await (const line of readLines(file)) {
    signal.throwIfAborted();
    if (line.reason) reject(progress, line, line.reason);
    else batch.push(line);
    if (batch.length === BATCH_SIZE) await flush();
  }
  await flush();
  progress.done = 1;
  onProgress(progress);
}

/** Send lines. If they are rejected, send them without those that the error names, or else in halves down to one line. */
async function sendLines(lines, key, send, progress, signal) {
  signal.throwIfAborted();
  try {
    const stored = await send(lines.map((line) => line.memory), key);
    progress.sent += lines.length;
    progress.returned += stored.length;
  } catch (error) {
    if (!isRejection(error)) throw error;
    const reasons = reasonsByIndex(error, lines.length);
    if (lines.length === 1) {
      reject(progress, lines[0], reasons.get(0) ?? error.message);
      return;
    }
    for (const [index, reason] of reasons) reject(progress, lines[index], reason);
    for (const part of reasons.size ? [lines.filter((_, index) => !reasons.has(index))] : halves(lines)) {
      if (part.length) await sendLines(part, `${key}-${numbersHash(part.map((line) => line.number))}`, send, progress, signal);
    }
  }
}

/** Whether an error is about the content of the request, and not about the connection. */
function isRejection(error) {
  return [400, 404, 409, 413, 422].includes(error.status);
}

function reasonsByIndex(error, length) {
  const reasons = new Map();
  for (const { field, message } of error.errors ?? []) {
    const [, match, , inner] = /^memories\.(\d+)(\.(.+))?$/.exec(field) ?? [];
    const index = Number(match);
    if (match === undefined || index >= length) continue;
    const reason = inner ? `${inner}: ${message}` : message;
    reasons.set(index, reasons.has(index) ? `${reasons.get(index)}; ${reason}` : reason);
  }
  return reasons;
}

function halves(lines) {
  const middle = Math.ceil(lines.length / 2);
  return [lines.slice(0, middle), lines.slice(middle)];
}

function reject(progress, line, reason) {
  const text = typeof line.memory?.text === "string" ? line.memory.text : line.raw ?? "";
  progress.rejected.push({ number: line.number, reason, text: text.slice(0, 200) });
}

/**
 * Yield the memories of a file.
 * @param {File} file
 * @returns {AsyncGenerator<Line>}
 */
async function* readLines(file) {
  const array = await readArray(file);
  if (array === null) {
    yield* readJsonl(file);
    return;
  }
  for (const [index, memory] of array.entries()) {
    yield { number: index + 1, done: (index + 1) / array.length, ...checkMemory(memory) };
  }
}

/** Return the memories of a JSON file; null if the file is JSONL. */
async function readArray(file) {
  const start = (await file.slice(0, 1024).text()).trimStart();
  if (!start.startsWith("[") && !/\.json$/i.test(file.name)) return null;
  if (file.size > MAX_ARRAY_BYTES) {
    throw new Error("The JSON file is larger than 100 MB. Convert it to JSONL, with one object per line.");
  }
  try {
    const value = JSON.parse(await file.text());
    if (Array.isArray(value)) return value;
    return Array.isArray(value?.memories) ? value.memories : [value];
  } catch (error) {
    if (start.startsWith("[")) throw new Error(`The file is not a valid JSON array: ${error.message}`);
    return null;
  }
}

async function* readJsonl(file) {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let number = 0;
  let charactersRead = 0;
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines) {
      number += 1;
      charactersRead += line.length + 1;
      const text = number === 1 ? line.replace(/^\uFEFF/, "") : line;
      // Characters are not bytes, but precise enough for a progress bar.
      if (text.trim()) yield { number, done: Math.min(1, charactersRead / file.size), ...parseLine(text) };
    }
    if (done) return;
  }
}

function parseLine(text) {
  try {
    return checkMemory(JSON.parse(text));
  } catch {
    return { reason: "not valid JSON", raw: text };
  }
}

function checkMemory(memory) {
  const isObject = typeof memory === "object" && memory !== null && !Array.isArray(memory);
  return isObject ? { memory } : { reason: "not an object with a text field" };
}

/**
 * Return a hash of the content of a file.
 *
 * crypto.subtle needs the whole file in memory, and it is missing on pages served over plain HTTP from another machine.
 * A collision does no harm: the service rejects an idempotency key that is used with other content.
 */
async function contentHash(file) {
  const parts = [0x9e3779b9, 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f];
  for (let start = 0; start < file.size; start += HASH_CHUNK_BYTES) {
    mix(parts, new Uint8Array(await file.slice(start, start + HASH_CHUNK_BYTES).arrayBuffer()));
  }
  return parts.map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("") + `-${file.size}`;
}

function numbersHash(numbers) {
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
