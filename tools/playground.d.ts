// The types that the JSDoc comments of the playground name. They are declared here, because the page is plain JavaScript.

/** What every view gets. */
interface App {
  api: Api;
  scope: {
    value: { profile: string | null; project: string | null; session: string | null; kinds: string[] | null };
    set(changes: object): void;
    asRequest(): object;
    onChange(listener: () => void): () => void;
  };
  route: {
    view: string;
    params: URLSearchParams;
    update(changes: object, options?: { push?: boolean }): void;
    go(hash: string, inherited?: string[]): void;
    onChange(listener: () => void): () => void;
    addGuard(guard: (event: HashChangeEvent) => boolean): () => void;
  };
  toast(text: string, options?: { action?: () => void; label?: string; kind?: string; seconds?: number }): void;
  go(hash: string): void;
  announce(text: string): void;
  refreshScope(): Promise<void>;
}

interface RequestOptions {
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Responses are not checked: their fields are those of the service's OpenAPI schema. */
interface Api {
  get(path: string, query?: object, options?: RequestOptions): Promise<any>;
  post(path: string, body?: unknown, options?: RequestOptions): Promise<any>;
  patch(path: string, body: unknown, options?: RequestOptions): Promise<any>;
  delete(path: string, body?: unknown, options?: RequestOptions): Promise<any>;
  open(path: string, body?: unknown, options?: RequestOptions): Promise<Response>;
}

/** Tuning parameters by their names in camelCase. */
type Tuning = Record<string, any>;

/** The JSON schema of a tuning parameter. */
interface Schema {
  type: string;
  description: string;
  default?: any;
  enum?: string[];
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  readOnly?: boolean;
}

interface Memory {
  id: string;
  text: string;
  created: string;
  project: string | null;
  session: string | null;
  position: number | null;
  kind: string;
  speaker: string | null;
  importance: number;
  metadata: Record<string, any>;
  source: string | null;
  occurred: string | null;
  evergreen: boolean;
  key: string | null;
  validFrom: string | null;
  validTo: string | null;
  supersededBy: string | null;
  reason: string | null;
  expires: string | null;
}

interface Reason {
  step: string;
  change: number;
  score: number;
  rank: number | null;
  value: number | null;
  note: string;
}

interface Hit {
  rank: number;
  id: string;
  score: number;
  relevance: number | null;
  memory: Memory;
  why: Reason[];
}

interface RecallRequest {
  query: string;
  limit: number;
}

interface Recall {
  query: string;
  hits: Hit[];
  dropped: Hit[];
  relevance: number;
  terms: string[];
  retrievers: { name: string; weight: number; ran: boolean; found: number; note: string }[];
  stages: Record<string, number>;
  elapsedMs: number;
  degraded: string | null;
  degradedReason: string | null;
  period: NamedPeriod | null;
}

/** The period that a query names; its end is not in it. */
interface NamedPeriod {
  words: string;
  since: string;
  until: string;
}

/** The ranks of a memory with the saved tuning (a) and with the unsaved changes (b). */
interface Move {
  id: string;
  rankA: number | null;
  rankB: number | null;
  change: number | null;
}

type Metrics = Record<string, number>;

/** The metrics of two tunings on the judged queries. */
interface Measured {
  n: number;
  sentence: string;
  metrics: string[];
  a: Metrics;
  b: Metrics;
  queries: { query: string; relevant: number; a: Metrics; b: Metrics }[];
  degraded: string | null;
  degradedReason: string | null;
}

/** How far the score bars of a list extend to the left and to the right of zero. */
interface Scale {
  left: number;
  right: number;
  whole: number;
}

/** The elements that the page looks up by a selector are HTML elements, which `Element` does not say. */
interface ParentNode {
  querySelector(selectors: string): HTMLElement | null;
  querySelectorAll(selectors: string): NodeListOf<HTMLElement>;
}

/** A session in the list of sessions. */
interface SessionSummary {
  name: string;
  project: string | null;
  memories: number;
  first: string | null;
  last: string | null;
}
