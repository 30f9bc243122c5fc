/** Who is signed in: their name, their projects, and what they may do in the one that is open. */

import { useEffect, useState } from "preact/hooks";

import { firstAsked } from "../lib/ahead.ts";
import { parse } from "../lib/route.ts";
import { api } from "./http.ts";

export type Scope = "enqueue" | "work" | "read" | "operate" | "admin" | "owner";

export interface Project {
  id: string;
  name: string;
  org_id?: string;
  role?: string;
  scopes?: Scope[];
}

export interface Me {
  user: { id: string; email: string; full_name: string } | null;
  organizations: { id: string; name: string; role: string }[];
  projects: Project[];
  scopes: Scope[];
  role?: string | null;
}

/** `asking`: not known yet. `out`: nobody. */
export type Session = { is: "asking" } | { is: "out"; why: string } | { is: "in"; me: Me };

let session: Session = { is: "asking" };
const watchers = new Set<() => void>();

function set(next: Session): void {
  session = next;
  for (const watcher of watchers) watcher();
}

/** The session now; drawn again when it changes. */
export function useSession(): Session {
  const [, draw] = useState(0);
  useEffect(() => {
    const watcher = (): void => draw((n) => n + 1);
    watchers.add(watcher);
    watcher(); // it may have changed between the first drawing and now
    return () => void watchers.delete(watcher);
  }, []);
  return session;
}

/** Who is signed in; undefined while nobody is. */
export function useMe(): Me | undefined {
  const now = useSession();
  return now.is === "in" ? now.me : undefined;
}

api.onSignedOut = () => set({ is: "out", why: "Your session has ended: sign in again." });

/** Take up the session that the browser's cookie holds. */
export async function resume(): Promise<void> {
  set({ is: "asking" });
  try {
    if (await api.renew()) {
      askAhead();
      await learn();
    }
    else set({ is: "out", why: "" });
  } catch (error) {
    set({ is: "out", why: `${(error as Error).message}: try again in a moment.` });
  }
}

/** A link names its project, so that its screen need not wait for the list of them. */
function askAhead(): void {
  const place = parse(location.hash);
  const address = firstAsked(place);
  if (!place.project || !address) return;
  api.project = place.project;
  api.ahead(address);
}

/** Sign in by e-mail and password. Rejects with the API's own word. */
export async function signIn(email: string, password: string): Promise<void> {
  const answer = await api.post<{ access_token: string }>("/v1/auth/login", { email, password });
  api.use(answer.access_token);
  await learn();
}

/** Sign in with an API key; it is forgotten with the page. */
export async function signInWithKey(key: string): Promise<void> {
  api.use(key);
  try {
    await learn();
  } catch (error) {
    api.use("");
    throw error;
  }
}

/** End the session here, and at the API. */
export async function signOut(): Promise<void> {
  try {
    await api.post("/v1/auth/logout");
  } finally {
    api.use("");
    set({ is: "out", why: "" });
  }
}

/** Ask again who is signed in: projects and roles may have changed. */
export async function learn(): Promise<void> {
  const me = await api.get<Partial<Me>>("/v1/me");
  const known: Me = { user: me.user ?? null, organizations: me.organizations ?? [], projects: me.projects ?? [], scopes: me.scopes ?? [], role: me.role ?? null };
  set({ is: "in", me: known });
}

/** May the caller do what this scope opens, in the project that is open? Only for what to offer: the API decides. */
export function may(scope: Scope): boolean {
  if (session.is !== "in") return false;
  const project = session.me.projects.find((one) => one.id === api.project);
  const scopes = project?.scopes ?? session.me.scopes;
  return scopes.includes(scope);
}
