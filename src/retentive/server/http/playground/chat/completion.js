/** Requests of a chat: the context of a message, the answer as it arrives, and what was stored of the turn. */

import { ApiError } from "../shared/api.js";

const POLL_MS = [50, 100, 200, 400, 800, 1600, 3200];
const FACTS_POLL_MS = [1000, 2000, 4000, 8000];

/** Return an id for a turn. `crypto.randomUUID` does not exist on pages without TLS. */
export function turnKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Yield the answer of the model in pieces.
 * @param {object} api
 * @param {object} request  the body of the request
 * @param {{key: string, signal: AbortSignal}} options
 */
export async function* complete(api, request, { key, signal }) {
  const response = await api.open("v1/chat/completions", { ...request, stream: true }, { headers: { "Idempotency-Key": key }, signal });
  if (!(response.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
    yield (await response.json()).choices?.[0]?.message?.content ?? "";
    return;
  }
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const { error, choices } = parse(data);
    if (error) throw new ApiError({ status: 502, code: error.code, detail: error.message });
    const text = choices?.[0]?.delta?.content;
    if (text) yield text;
  }
}

/** Yield the data of server-sent events. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await read(reader);
      rest += value ?? "";
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = done ? "" : blocks.pop();
      for (const block of blocks) {
        const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
        if (lines.length) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ detail: "The connection to the service was interrupted." });
  }
}

function parse(data) {
  try {
    return JSON.parse(data) ?? {};
  } catch {
    throw new ApiError({ status: 502, code: "llm_invalid", detail: "The LLM server sent an event that is not JSON." });
  }
}

/**
 * Return the memories that were stored of a turn. They are stored in the background, when the answer has ended.
 * @param {object} api
 * @param {{session: string, project: ?string}} scope
 * @param {string} key  the id of the turn
 * @param {{answer: string, state: string}} turn  its answer, and "done" if that is complete
 */
export async function storedOfTurn(api, { session, project }, key, { answer, state }) {
  const isLast = ({ speaker, metadata }) => !answer || (speaker === "assistant" && (state !== "done" || !metadata.incomplete));
  let found = [];
  for (const ms of POLL_MS) {
    const { memories } = await api.get("v1/memories", { session, project, onlySession: true, limit: 20 });
    found = memories.filter(({ metadata }) => metadata.request === key).sort((a, b) => a.position - b.position);
    if (found.some(isLast)) break;
    await new Promise((resolve) => setTimeout(resolve, ms));
  }
  return found;
}

/** Return the facts that the LLM has extracted from these memories; it may take some seconds. */
export async function extractedFacts(api, project, ids) {
  for (const ms of FACTS_POLL_MS) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    const { memories } = await api.get("v1/memories", { project, kinds: "semantic", limit: 50 });
    const found = memories.filter(({ metadata }) => [metadata.extracted_from].flat().some((id) => ids.includes(id)));
    if (found.length) return found;
  }
  return [];
}
