/** Memories of a file sent in batches, each under a name of its own, and the lines that were refused found. */

import { contentHash, numbersHash, readLines } from "./import_lines.js";

export const BATCH = 200;

/**
 * @typedef {object} Progress
 * @property {number} done  from 0 to 1
 * @property {number} sent  lines that the server took
 * @property {number} kept  memories that it gave back; fewer where some were forgotten since they were first sent
 * @property {{number: number, reason: string, text: string}[]} refused
 */

/**
 * Send a file's memories; the same file again stores nothing twice.
 *
 * @param {File} file
 * @param {object} how
 * @param {(memories: object[], key: string) => Promise<object[]>} how.send  gives the memories as stored
 * @param {(progress: Progress) => void} how.tell
 * @param {AbortSignal} how.signal
 * @param {string} [how.again]  makes the names of the batches others than those of the last time
 * @returns {Promise<Progress>}
 */
export async function importFile(file, { send, tell, signal, again = "" }) {
  const progress = { done: 0, sent: 0, kept: 0, refused: [] };
  const name = (await contentHash(file)) + again;
  let batch = [];
  let number = 0;
  const flush = async () => {
    if (batch.length) await sendAll(batch, `${name}-${number}`, send, progress, signal);
    progress.done = batch.at(-1)?.done ?? progress.done;
    number += 1;
    batch = [];
    tell(progress);
  };
  for await (const line of readLines(file)) {
    signal.throwIfAborted();
    if (line.reason) refuse(progress, line, line.reason);
    else batch.push(line);
    if (batch.length === BATCH) await flush();
  }
  await flush();
  progress.done = 1;
  tell(progress);
  return progress;
}

/** Send lines; where they are refused, without those that the server names, or else in halves until one is left. */
async function sendAll(lines, key, send, progress, signal) {
  signal.throwIfAborted();
  try {
    const stored = await send(lines.map((line) => line.memory), key);
    progress.sent += lines.length;
    progress.kept += stored.length;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const named = namedLines(error, lines.length);
    if (lines.length === 1) {
      refuse(progress, lines[0], named.get(0) ?? error.detail);
      return;
    }
    for (const [at, reason] of named) refuse(progress, lines[at], reason);
    for (const part of named.size ? [lines.filter((_, at) => !named.has(at))] : halves(lines)) {
      if (part.length) await sendAll(part, `${key}-${numbersHash(part.map((line) => line.number))}`, send, progress, signal);
    }
  }
}

/** Whether it is the lines that are wrong, and not the way to the server. */
function isRefusal(error) {
  return [400, 404, 409, 413, 422].includes(error.status);
}

function namedLines(error, count) {
  const named = new Map();
  for (const { field, message } of error.errors ?? []) {
    const [, at, , inside] = /^memories\.(\d+)(\.(.+))?$/.exec(field) ?? [];
    if (at === undefined || Number(at) >= count) continue;
    const reason = inside ? `${inside}: ${message}` : message;
    named.set(Number(at), named.has(Number(at)) ? `${named.get(Number(at))}; ${reason}` : reason);
  }
  return named;
}

function halves(lines) {
  const middle = Math.ceil(lines.length / 2);
  return [lines.slice(0, middle), lines.slice(middle)];
}

function refuse(progress, line, reason) {
  const text = typeof line.memory?.text === "string" ? line.memory.text : line.raw ?? "";
  progress.refused.push({ number: line.number, reason, text: text.slice(0, 200) });
}
