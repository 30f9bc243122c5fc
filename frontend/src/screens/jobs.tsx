/** Jobs: filters in the address, views that can be saved, rows that can be chosen and worked on in bulk. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Job } from "../api/jobs.ts";
import { may } from "../api/session.ts";
import { plural } from "../lib/format.ts";
import { asked, FIELDS, isFiltered, SORTS, STATES } from "../lib/filters.ts";
import { usePages } from "../lib/pages.ts";
import { prefer, preferred } from "../lib/prefs.ts";
import { fragment, go, parse, setQuery, to } from "../lib/route.ts";
import { Button, Field, Id, State, Time } from "../ui/basic.tsx";
import { BulkBar, Planned } from "../ui/bulk.tsx";
import { attempt, Dialog } from "../ui/dialog.tsx";
import { ListTrouble, NothingMatches, NothingYet } from "../ui/states.tsx";
import { type Column, Table } from "../ui/table.tsx";

const COLUMNS: Record<string, Column<Job>> = {
  id: { name: "Id", cell: (job) => <Id id={job.id} href={to("jobs", job.id)} />, wide: true },
  type: { name: "Type", cell: (job) => <a href={to("jobs", job.id)}>{job.job_type}</a> },
  state: { name: "State", cell: (job) => <State is={job.state} /> },
  queue: { name: "Queue", cell: (job) => job.queue, wide: true },
  attempt: { name: "Attempt", cell: (job) => `${job.attempt_count}/${job.max_attempts}`, end: true, wide: true },
  priority: { name: "Priority", cell: (job) => job.priority, end: true, wide: true },
  run_at: { name: "Due", cell: (job) => <Time at={job.run_at} />, wide: true },
  created: { name: "Created", cell: (job) => <Time at={job.created_at} /> },
  finalized: { name: "Ended", cell: (job) => <Time at={job.finalized_at} />, wide: true },
  error: { name: "Error", cell: (job) => job.error && <span title={job.error.message ?? ""}>{job.error.class ?? job.error.message}</span>, wide: true },
  partition: { name: "Partition", cell: (job) => job.partition_key ?? "", wide: true },
  tags: { name: "Tags", cell: (job) => job.tags.join(", "), wide: true },
};
const DEFAULT_COLUMNS: readonly string[] = ["id", "type", "state", "queue", "attempt", "created", "error"];

/** The columns that a link names, else those that this reader chose last. */
function columnsOf(query: URLSearchParams): readonly string[] {
  const named = (query.get("columns") ?? "").split(" ").filter((name) => name in COLUMNS);
  return named.length ? named : preferred("columns", DEFAULT_COLUMNS);
}

export function Jobs({ query }: { query: URLSearchParams }): JSX.Element {
  const search = asked(query);
  const list = usePages<Job>("/v1/jobs", search, ["jobs"], (job) => job.id);
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const columns = columnsOf(query);
  const chosen = columns.flatMap((name) => COLUMNS[name] ?? []);
  // What was shown goes into the step that Back leads to; each further change belongs to the same step.
  const choose = (next: readonly string[], isFirst: boolean): void => {
    if (isFirst) setQuery({ columns: columns.join(" ") }, true);
    prefer("columns", next);
    setQuery({ columns: next.join(" ") }, !isFirst);
  };
  const clear = (): void => go(to("jobs"));
  return (
    <>
      <header>
        <h1>Jobs</h1>
        <Views query={search} columns={columns} />
        {may("enqueue") && <Button onClick={() => go(to("new-job"))}>Enqueue…</Button>}
        <ColumnsChoice columns={columns} onChange={choose} />
      </header>
      <Filters query={query} />
      {may("operate") && <BulkBar query={search} rows={list.rows} selected={selected} onDone={() => setSelected(new Set())} />}
      <Planned />
      <ListTrouble of={list} />
      {list.loading ? (
        <div class="loading" role="status" aria-label="loading" />
      ) : list.rows.length ? (
        <>
          <Table
            label="Jobs"
            rows={list.rows}
            columns={chosen}
            id={(job) => job.id}
            href={(job) => to("jobs", job.id)}
            {...(may("operate") ? { selected, onSelect: setSelected } : {})}
            onEnd={list.more ? list.onEnd : undefined}
          />
          <p class="dim" role="status">
            {plural(list.rows.length, "job")} loaded{list.more ? ", more below" : ": all there are"}
          </p>
        </>
      ) : isFiltered(search) ? (
        !list.error && <NothingMatches what="jobs" onClear={clear} />
      ) : (
        !list.error && (
          <NothingYet what="jobs">
            Enqueue one: <code>tidemill enqueue demo.hello</code>
          </NothingYet>
        )
      )}
    </>
  );
}

function Filters({ query }: { query: URLSearchParams }): JSX.Element {
  const states = query.getAll("state");
  const [open, setOpen] = useState(() => FIELDS.some((name) => query.has(name)));
  const flip = (state: string): void => setQuery({ state: states.includes(state) ? states.filter((one) => one !== state) : [...states, state] });
  return (
    <form class="card" role="search" onSubmit={(event) => event.preventDefault()}>
      <div class="row">
        <input
          type="search" class="grow" placeholder="Id, or exact unique, idempotency or correlation key" aria-label="Search by id or key"
          value={query.get("q") ?? ""} onChange={(event) => setQuery({ q: event.currentTarget.value.trim() })}
        />
        <select aria-label="Order" value={query.get("sort") ?? "-created_at"} onChange={(event) => setQuery({ sort: event.currentTarget.value })}>
          {SORTS.map((sort) => (
            <option key={sort} value={sort}>
              {sort.replace("-", "").replace("_at", "").replaceAll("_", " ")}, {sort.startsWith("-") ? "latest" : "earliest"} first
            </option>
          ))}
        </select>
        <Button aria-expanded={open} onClick={() => setOpen(!open)}>
          More filters
        </Button>
        {isFiltered(query) && <Button onClick={() => go(to("jobs"))}>Clear</Button>}
      </div>
      <div class="chips" role="group" aria-label="States">
        {STATES.map((state) => (
          <button type="button" key={state} class="chip" aria-pressed={states.includes(state)} onClick={() => flip(state)}>
            {state.replaceAll("_", " ")}
          </button>
        ))}
      </div>
      {open && (
        <div class="form">
          {FIELDS.map((name) => (
            <Field key={name} label={name.replaceAll("_", " ")}>
              <input
                value={query.getAll(name).join(" ")} placeholder={name.startsWith("created_") ? "2026-11-29T00:00:00Z" : ""}
                onChange={(event) => setQuery({ [name]: name.endsWith("tag") ? event.currentTarget.value.split(/\s+/) : event.currentTarget.value.trim() })}
              />
            </Field>
          ))}
        </div>
      )}
    </form>
  );
}

type Saved = Record<string, string>;

/** Where we are, with the columns that are shown, for whoever has chosen others. */
function link(columns: readonly string[]): string {
  const { project, path, query } = parse(location.hash);
  const shown = columns.join(" ");
  if (shown !== DEFAULT_COLUMNS.join(" ")) query.set("columns", shown);
  return new URL(fragment(project, path, query), location.href).href;
}

function Views({ query, columns }: { query: URLSearchParams; columns: readonly string[] }): JSX.Element {
  const { project } = parse(location.hash);
  const [views, set] = useState<Saved>(() => preferred(`views.${project}`, {}));
  const [naming, setNaming] = useState(false);
  const keep = (next: Saved): void => (prefer(`views.${project}`, next), set(next));
  const here = query.toString();
  const known = Object.entries(views).find(([, text]) => text === here)?.[0];
  const save = (event: SubmitEvent): void => {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget as HTMLFormElement).get("name") ?? "").trim();
    if (name) keep({ ...views, [name]: here });
    setNaming(false);
  };
  return (
    <div class="row">
      {Object.keys(views).length > 0 && (
        <select aria-label="Saved views" value={known ?? ""} onChange={(event) => go(fragment(project, ["jobs"], new URLSearchParams(views[event.currentTarget.value] ?? "")))}>
          <option value="">Views…</option>
          {Object.keys(views).map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
      {known ? (
        <Button onClick={() => keep(Object.fromEntries(Object.entries(views).filter(([name]) => name !== known)))}>Forget this view</Button>
      ) : (
        here && <Button onClick={() => setNaming(true)}>Save as a view</Button>
      )}
      <Button onClick={() => void attempt(async () => (await navigator.clipboard.writeText(link(columns)), { says: "The link is on the clipboard." }))}>Copy link</Button>
      {naming && (
        <Dialog title="Save these filters as a view" onClose={() => setNaming(false)}>
          <form onSubmit={save}>
            <Field label="Name" hint="It is kept in this browser. To share it, copy the link.">
              <input name="name" required maxLength={60} autofocus />
            </Field>
            <div class="row end">
              <Button onClick={() => setNaming(false)}>Cancel</Button>
              <button class="button main">Save</button>
            </div>
          </form>
        </Dialog>
      )}
    </div>
  );
}

function ColumnsChoice({ columns, onChange }: { columns: readonly string[]; onChange: (columns: readonly string[], isFirst: boolean) => void }): JSX.Element {
  const [open, setOpen] = useState(false);
  const [isFirst, setFirst] = useState(true);
  const change = (next: readonly string[]): void => {
    if (next.join() === columns.join()) return;
    onChange(next, isFirst);
    setFirst(false);
  };
  return (
    <>
      <Button onClick={() => (setFirst(true), setOpen(true))}>Columns</Button>
      {open && (
        <Dialog title="Columns" onClose={() => setOpen(false)}>
          <div class="form">
            {Object.entries(COLUMNS).map(([name, column]) => (
              <label key={name} class="row">
                <input
                  type="checkbox" checked={columns.includes(name)} disabled={columns.length === 1 && columns.includes(name)}
                  onChange={() => change(Object.keys(COLUMNS).filter((one) => (one === name) !== columns.includes(one)))}
                />
                {column.name}
              </label>
            ))}
          </div>
          <div class="row end">
            <Button onClick={() => change(DEFAULT_COLUMNS)}>As it was</Button>
            <Button kind="main" onClick={() => setOpen(false)}>
              Done
            </Button>
          </div>
        </Dialog>
      )}
    </>
  );
}
