/** The frame around every screen: where one can go, who one is, whether the API answers. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { api } from "../api/http.ts";
import { may, type Me, type Scope, signOut } from "../api/session.ts";
import { now as timeNow, skew, useNow } from "../lib/clock.ts";
import { duration } from "../lib/format.ts";
import { active, useKeys } from "../lib/keys.ts";
import { forgetAll, refreshAll } from "../lib/live.ts";
import { fragment, go, to, usePlace } from "../lib/route.ts";
import { useTheme } from "../lib/theme.ts";
import { Button, Field } from "./basic.tsx";
import { Dialog, Words } from "./dialog.tsx";

interface Entry {
  path: string;
  name: string;
  key: string;
  scope: Scope;
}

const ENTRIES: readonly Entry[] = [
  { path: "", name: "Overview", key: "o", scope: "read" },
  { path: "jobs", name: "Jobs", key: "j", scope: "read" },
  { path: "dead-letters", name: "Dead letters", key: "d", scope: "read" },
  { path: "queues", name: "Queues", key: "q", scope: "read" },
  { path: "limits", name: "Limits", key: "l", scope: "read" },
  { path: "retry-policies", name: "Retry policies", key: "t", scope: "read" },
  { path: "schedules", name: "Schedules", key: "s", scope: "read" },
  { path: "batches", name: "Batches", key: "b", scope: "read" },
  { path: "workers", name: "Workers", key: "w", scope: "read" },
  { path: "quarantine", name: "Quarantine", key: "u", scope: "read" },
  { path: "operations", name: "Operations", key: "p", scope: "read" },
  { path: "keys", name: "Keys", key: "k", scope: "admin" },
  { path: "members", name: "Members", key: "m", scope: "read" },
  { path: "projects", name: "Projects", key: "r", scope: "read" },
  { path: "audit", name: "Audit", key: "a", scope: "read" },
];

const TOLD_MS = 30_000;

/** Navigation, help, banner and words around the screen. */
export function Shell({ me, children }: { me: Me; children: ComponentChildren }): JSX.Element {
  const place = usePlace();
  const [theme, nextTheme] = useTheme();
  const [help, setHelp] = useState(false);
  const [open, setOpen] = useState(false);
  const up = place.path.length > 1 ? place.path[0] : undefined;
  const entries = ENTRIES.filter((entry) => may(entry.scope));
  useKeys([
    { key: "?", what: "these keys", run: () => setHelp(true) },
    { key: "/", what: "search jobs", run: () => document.querySelector<HTMLInputElement>("input[type=search]")?.focus() ?? go(to("jobs")) },
    { key: "R", what: "read everything again", run: refreshAll },
    { key: "T", what: "light, dark or the system's", run: nextTheme },
    ...(up ? [{ key: "u", what: "up to the list", run: () => go(to(up)) }] : []),
    { key: "a", what: "to what this screen can do", run: () => document.querySelector<HTMLElement>("main > header :is(button, a, select)")?.focus() },
    { key: "g y", what: "Your account", run: () => go(to("account")) },
    ...entries.map((entry) => ({ key: `g ${entry.key}`, what: entry.name, run: () => go(to(...(entry.path ? [entry.path] : []))) })),
  ]);
  useEffect(() => setOpen(false), [place]);
  const here = (place.path[0] ?? "").replace(/^new-job$/, "jobs").replace(/^new-schedule$/, "schedules");
  const title = [place.path[1], ENTRIES.find((entry) => entry.path === here)?.name ?? here.replaceAll("-", " "), "tidemill"].filter(Boolean).join(" · ");
  useEffect(() => void (document.title = title), [title]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        To the content
      </a>
      <div class={`side ${open ? "open" : ""}`}>
        <a class="brand" href={to()}>
          <svg width="20" height="20" viewBox="0 0 16 16" aria-hidden="true">
            <path d="M1 10q3.5-4 7 0t7 0v4H1z" fill="var(--main)" />
            <circle cx="8" cy="5" r="3" fill="none" stroke="var(--main)" stroke-width="1.6" />
          </svg>
          tidemill
        </a>
        <Button class="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
          Menu
        </Button>
        {me.projects.length > 1 && (
          <div class="project">
            <Field label="Project">
              <select value={api.project} onChange={(event) => (forgetAll(), go(fragment(event.currentTarget.value, place.path)))}>
                {me.projects.map((project) => (
                  <option key={project.id} value={project.id}>
                    {project.name}
                  </option>
                ))}
              </select>
            </Field>
          </div>
        )}
        <nav aria-label="Screens">
          {entries.map((entry) => (
            <a key={entry.path} href={to(...(entry.path ? [entry.path] : []))} aria-current={here === entry.path ? "page" : undefined}>
              {entry.name}
            </a>
          ))}
        </nav>
        <div class="foot">
          <Skew />
          <a class="who" href={to("account")}>
            {me.user?.email ?? "an API key"}
          </a>
          <div class="row">
            <Button onClick={() => setHelp(true)} aria-label="Keys of the keyboard">
              ?
            </Button>
            <Button onClick={nextTheme}>{theme === "system" ? "Auto" : theme === "light" ? "Light" : "Dark"}</Button>
            <Button onClick={() => void signOut()}>Sign out</Button>
          </div>
        </div>
      </div>
      <main id="main" tabIndex={-1} data-place={location.hash}>
        <Reach />
        {children}
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
      <Words />
    </div>
  );
}

/** A banner while the API does not answer; what is shown stays. */
function Reach(): JSX.Element | null {
  const [since, set] = useState<number | null>(null);
  const now = useNow();
  useEffect(() => {
    api.onReach = (reached) => set((before) => (reached ? null : (before ?? timeNow())));
    return () => {
      api.onReach = () => undefined;
    };
  }, []);
  if (since === null || now - since < 1_500) return null;
  return (
    <p class="banner" role="alert">
      The API has not answered for {duration(now - since)}. What you see is from before; it is read again as soon as the API is back.
    </p>
  );
}

/** Only where it matters: nobody is to wonder why the page tells another time than the clock beside it. */
function Skew(): JSX.Element | null {
  useNow();
  if (Math.abs(skew()) < TOLD_MS) return null;
  return (
    <p class="who">
      This machine's clock is {duration(Math.abs(skew()))} {skew() > 0 ? "behind" : "ahead of"} the server's. Times here are by the server's.
    </p>
  );
}

function Help({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {active().map((one) => (
          <>
            <dt>
              {one.key.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{one.what}</dd>
          </>
        ))}
      </dl>
      <div class="row end">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}
