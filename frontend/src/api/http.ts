/**
 * Requests to the page's own origin, as whoever is signed in.
 *
 * The access token lives in memory alone; a reload gets a new one with the refresh cookie, which no script can read.
 *
 * Failure
 * ├── Problem      the API said no: status, code, detail and the fields at fault
 * └── Unreachable  no answer, or none that the API gives
 */

import { hear } from "../lib/clock.ts";

export class Failure extends Error {}

/** One field at fault. */
export interface Fault {
  loc: (string | number)[];
  msg: string;
}

/** What RFC 9457 answers carry. */
export class Problem extends Failure {
  readonly status: number;
  readonly code: string;
  readonly errors: readonly Fault[];
  readonly requestId: string;
  readonly retryAfterMs: number;

  constructor(status: number, body: Partial<{ code: string; detail: string; title: string; errors: Fault[]; request_id: string }>, retryAfterMs = 0) {
    super(body.detail || body.title || `the API answered ${status}`);
    this.status = status;
    this.code = body.code ?? "";
    this.errors = body.errors ?? [];
    this.requestId = body.request_id ?? "";
    this.retryAfterMs = retryAfterMs;
  }
}

export class Unreachable extends Failure {}

/** An answer, and whether it is the one we had. */
export interface Answer<T> {
  value: T;
  etag: string | null;
}

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined> | URLSearchParams;

export interface Options {
  query?: Query;
  body?: unknown;
  signal?: AbortSignal;
  /** The tag of what is at hand: an unchanged answer is `null`. */
  etag?: string | null;
}

const TIMEOUT_MS = 35_000;
const EARLY_MS = 5_000;

/** Who is signed in, and for which project requests are made. */
export class Api {
  project = "";
  private token = "";
  private renewing: Promise<boolean> | null = null;
  /** Called once when nobody is signed in any more. */
  onSignedOut: () => void = () => undefined;
  /** Called with every sign of life, and with its absence. */
  onReach: (reached: boolean) => void = () => undefined;

  /** Answers that are on their way before anybody asked, by address. */
  private readonly early = new Map<string, Promise<Response>>();

  /** Ask for what will be asked in a moment; whoever asks first gets this answer. */
  ahead(address: string): void {
    const coming = this.send("GET", address, {}, this.token);
    this.early.set(address, coming);
    coming.catch(() => this.early.delete(address));
    setTimeout(() => this.early.delete(address), EARLY_MS);
  }

  get hasToken(): boolean {
    return this.token !== "";
  }

  /** Sign in with what the API gave, or out with nothing. */
  use(token: string): void {
    this.token = token;
  }

  async get<T>(path: string, options: Options = {}): Promise<T> {
    return (await this.ask<T>("GET", path, options)).value;
  }

  async post<T>(path: string, body: unknown = {}, options: Options = {}): Promise<T> {
    return (await this.ask<T>("POST", path, { ...options, body })).value;
  }

  async put<T>(path: string, body: unknown): Promise<T> {
    return (await this.ask<T>("PUT", path, { body })).value;
  }

  async patch<T>(path: string, body: unknown): Promise<T> {
    return (await this.ask<T>("PATCH", path, { body })).value;
  }

  async delete<T>(path: string, query: Query = {}): Promise<T> {
    return (await this.ask<T>("DELETE", path, { query })).value;
  }

  /** The answer with its tag; null where nothing has changed since `etag`. */
  async fresh<T>(path: string, options: Options): Promise<Answer<T> | null> {
    const answer = await this.ask<T>("GET", path, options);
    return answer.etag !== null && answer.etag === options.etag ? null : answer;
  }

  /** Sign in with the refresh cookie. False: there is none that works. One call at a time, whoever asks. */
  renew(): Promise<boolean> {
    this.renewing ??= this.refresh().finally(() => {
      this.renewing = null;
    });
    return this.renewing;
  }

  private async refresh(): Promise<boolean> {
    const answer = await this.send("POST", "/v1/auth/refresh", { body: {} }, "");
    if (!answer.ok) {
      if (answer.status >= 500 || answer.status === 429) throw await problemOf(answer);
      this.token = "";
      return false;
    }
    this.token = ((await answer.json()) as { access_token: string }).access_token;
    return true;
  }

  private async ask<T>(method: string, path: string, options: Options): Promise<Answer<T>> {
    const used = this.token;
    const address = path + queryText(options.query);
    const early = method === "GET" ? this.early.get(address) : undefined;
    this.early.delete(address);
    let answer = await (early ?? this.send(method, path, options, used));
    if (answer.status === 401 && used && !used.startsWith("tm_") && !path.startsWith("/v1/auth/")) {
      if (this.token !== used || (await this.renew())) answer = await this.send(method, path, options, this.token);
    }
    if (answer.status === 401 && used && !path.startsWith("/v1/auth/")) {
      this.token = "";
      this.onSignedOut();
    }
    if (answer.status === 304) return { value: undefined as T, etag: options.etag ?? null };
    if (!answer.ok) throw await problemOf(answer);
    const text = answer.status === 204 ? "" : await answer.text();
    try {
      return { value: (text ? JSON.parse(text) : undefined) as T, etag: answer.headers.get("etag") };
    } catch {
      throw new Unreachable("the answer is not JSON: something between here and the API answers in its place");
    }
  }

  private async send(method: string, path: string, options: Options, token: string): Promise<Response> {
    const search = queryText(options.query);
    const headers: Record<string, string> = { accept: "application/json" };
    if (token) headers["authorization"] = `Bearer ${token}`;
    if (token && this.project && !token.startsWith("tm_")) headers["x-tidemill-project"] = this.project;
    if (options.body !== undefined) headers["content-type"] = "application/json";
    if (options.etag) headers["if-none-match"] = options.etag;
    const signals = [AbortSignal.timeout(TIMEOUT_MS), ...(options.signal ? [options.signal] : [])];
    const askedAt = Date.now();
    try {
      const answer = await fetch(path + search, {
        method,
        headers,
        body: options.body === undefined ? null : JSON.stringify(options.body),
        signal: AbortSignal.any(signals),
        credentials: "same-origin",
        cache: "no-store",
      });
      hear(answer.headers.get("date"), askedAt);
      this.onReach(answer.status < 500 || answer.headers.get("content-type")?.includes("problem+json") === true);
      return answer;
    } catch (error) {
      if (options.signal?.aborted) throw error;
      this.onReach(false);
      throw new Unreachable("the API does not answer");
    }
  }
}

async function problemOf(answer: Response): Promise<Problem> {
  const wait = Number(answer.headers.get("retry-after")) * 1_000 || 0;
  try {
    return new Problem(answer.status, (await answer.json()) as object, wait);
  } catch {
    return new Problem(answer.status, {}, wait);
  }
}

function queryText(query: Query | undefined): string {
  if (!query) return "";
  const search = query instanceof URLSearchParams ? query : new URLSearchParams();
  if (!(query instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(query)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== null && one !== undefined && one !== "") search.append(name, String(one));
      }
    }
  }
  return search.size ? `?${search}` : "";
}

/** A name or id as one segment of a path. */
export function segment(name: string): string {
  return encodeURIComponent(name);
}

export const api = new Api();
