/** The service over HTTP: JSON in and out, problems as exceptions, the token of this tab. */

const TOKEN = "retentive-token";

/** Something that did not work: `status` (0 if nothing answered), a stable `code`, `detail`, `errors` by field. */
export class Problem extends Error {
  constructor({ status = 0, code = "unreachable", detail, errors = [] }) {
    super(detail);
    Object.assign(this, { name: "Problem", status, code, detail, errors });
  }
}

/**
 * @param {{profile: () => string | null, askForToken: (reason: string, sent: number) => Promise<boolean>}} ways whose memories are
 *   asked for, and how to get a token where one is needed: true if there is a new one to try.
 */
export function createApi({ profile, askForToken }) {
  async function send(method, path, { query, body, headers, signal } = {}) {
    const url = new URL(path.replace(/^\//, ""), document.baseURI.split("#")[0]);
    for (const [name, value] of pairs(query)) url.searchParams.append(name, value);
    const options = { method, signal, headers: { ...who(profile()), ...headers } };
    if (body !== undefined) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    const sent = performance.now();
    const response = await reached(url, options);
    if (response.status === 401) {
      const problem = await told(response);
      if (await askForToken(problem.detail, sent)) return send(method, path, { query, body, headers, signal });
      throw problem;
    }
    if (!response.ok) throw await told(response);
    return response.status === 204 ? null : response.json();
  }

  return {
    get: (path, query, more) => send("GET", path, { query, ...more }),
    post: (path, body, more) => send("POST", path, { body, ...more }),
    patch: (path, body, more) => send("PATCH", path, { body, ...more }),
    delete: (path, body, more) => send("DELETE", path, { body, ...more }),
  };
}

export const token = {
  get value() {
    return sessionStorage.getItem(TOKEN);
  },
  set value(secret) {
    if (secret) sessionStorage.setItem(TOKEN, secret);
    else sessionStorage.removeItem(TOKEN);
  },
};

/** Headers are bytes: names outside of Latin-1 go as UTF-8, which is how the service reads them. */
function who(profile) {
  const headers = {};
  if (profile) headers["X-Profile"] = String.fromCharCode(...new TextEncoder().encode(profile));
  if (token.value) headers.Authorization = `Bearer ${token.value}`;
  return headers;
}

function pairs(query = {}) {
  const entries = query instanceof URLSearchParams ? [...query] : Object.entries(query ?? {});
  return entries.flatMap(([name, value]) => (Array.isArray(value) ? value.map((one) => [name, one]) : [[name, value]]))
    .filter(([, value]) => value !== null && value !== undefined && value !== "");
}

async function reached(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "The service does not answer. Is retentive serve still running?" });
  }
}

async function told(response) {
  const said = await response.json().catch(() => null);
  const detail = said?.detail ?? `The service answered ${response.status} ${response.statusText}`.trim();
  return new Problem({ ...said, status: response.status, code: said?.code ?? String(response.status), detail });
}
