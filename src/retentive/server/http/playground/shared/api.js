/** HTTP client of the service: JSON requests and responses, errors as exceptions, with the profile and the token. */

import { scope } from "./scope.js";
import { requestToken, token } from "./token.js";

/** The code of a missing or wrong token of the service. A 401 of the LLM server, which is passed on, has another one. */
const TOKEN_NEEDED = "token_needed";

/** A failed request: `status` (0 without a response), a stable `code`, the `message`, and `errors` by field. */
export class ApiError extends Error {
  constructor({ status = 0, code = "unreachable", detail, errors = [] }) {
    super(detail);
    /** @type {string} */
    this.code = code;
    Object.assign(this, { name: "ApiError", status, errors });
  }
}

/** Return the message to show for a failed request; `action` is what a token without the access may not do. */
export function errorText(error, action) {
  return error.status === 403 ? `This token may not ${action}: ${error.message}` : error.message;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{query?: object, body?: unknown, raw?: boolean} & RequestOptions} [request]
 * @returns {Promise<any>}
 */
async function send(method, path, { query, body, headers, signal, raw = false } = {}) {
  const url = new URL(path, document.baseURI.split("#")[0]);
  for (const [name, value] of queryPairs(query)) url.searchParams.append(name, value);
  /** @type {RequestInit & {headers: Record<string, string>}} */
  const options = { method, signal, headers: { ...identity(), ...headers } };
  if (body instanceof Blob) {
    options.body = body;
    options.headers["Content-Type"] = "application/octet-stream";
  } else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const sentAt = performance.now();
  const response = await connect(url, options);
  if (!response.ok) {
    const error = await errorFrom(response);
    const retry = error.code === TOKEN_NEEDED && await requestToken(error.message, sentAt);
    if (retry) return send(method, path, { query, body, headers, signal, raw });
    throw error;
  }
  if (raw) return response;
  return response.status === 204 ? null : response.json();
}

/** @type {Api} */
export const api = {
  get: (path, query, options) => send("GET", path, { query, ...options }),
  post: (path, body, options) => send("POST", path, { body, ...options }),
  patch: (path, body, options) => send("PATCH", path, { body, ...options }),
  delete: (path, body, options) => send("DELETE", path, { body, ...options }),
  /** Resolve to the response itself, whose body may be a stream. */
  open: (path, body, options) => send("POST", path, { body, raw: true, ...options }),
};

/** Headers are bytes: a profile name outside Latin-1 is sent as UTF-8, which is how the service reads it. */
function identity() {
  const { profile } = scope.value;
  const headers = {};
  if (profile) headers["X-Profile"] = String.fromCharCode(...new TextEncoder().encode(profile));
  if (token.value) headers.Authorization = `Bearer ${token.value}`;
  return headers;
}

function queryPairs(query = {}) {
  return Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one]))
    .filter(([, value]) => value !== null && value !== undefined && value !== "");
}

async function connect(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ detail: "The service does not respond. Is retentive serve running?" });
  }
}

async function errorFrom(response) {
  const problem = await response.json().catch(() => null);
  // Routes for OpenAI's clients have errors in the format of OpenAI's API.
  const detail = problem?.detail ?? problem?.error?.message ?? `The service responded with ${response.status} ${response.statusText}`.trim();
  return new ApiError({ ...problem, status: response.status, code: problem?.code ?? problem?.error?.code ?? String(response.status), detail });
}
