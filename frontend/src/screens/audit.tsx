/** The audit log: who did what to which thing, before and after. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { useMe } from "../api/session.ts";
import type { Note } from "../api/access.ts";
import { useAll } from "../lib/all.ts";
import { shortId } from "../lib/format.ts";
import { useOver } from "../lib/over.ts";
import { queryOf, setQuery } from "../lib/route.ts";
import { Button, Field, Time } from "../ui/basic.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Json } from "../ui/json.tsx";
import { List } from "../ui/list.tsx";
import type { Column } from "../ui/table.tsx";

const FILTERS = ["action", "target_kind", "target_id", "actor_id"] as const;

export function Audit({ query }: { query: URLSearchParams }): JSX.Element {
  const change = useOver("change");
  const [known, setKnown] = useState<Note>();
  const owned = useMe()?.organizations.filter((one) => one.role === "owner") ?? [];
  const of = owned.find((one) => one.id === query.get("of"))?.id;
  const path = of ? `/v1/organizations/${of}/audit` : "/v1/audit";
  const columns: Column<Note>[] = [
    { name: "When", cell: (note) => <Time at={note.at} /> },
    { name: "Who", cell: (note) => <span class="clip">{note.actor ?? (note.actor_id ? `${note.actor_kind} ${shortId(note.actor_id)}` : note.actor_kind)}</span> },
    {
      name: "Did",
      cell: (note) => (
        <button type="button" class="as-link clip" aria-label={`What changed: ${note.action} ${note.target_id}`} onClick={() => (setKnown(note), change.open(note.id))}>
          {note.action.replaceAll("_", " ")}
        </button>
      ),
    },
    { name: "To", wide: true, cell: (note) => `${note.target_kind.replaceAll("_", " ")} ${note.target_id.length > 30 ? shortId(note.target_id) : note.target_id}` },
  ];
  const asked = queryOf(Object.fromEntries(FILTERS.map((name) => [name, query.get(name)])));
  return (
    <>
      <header>
        <h1>Audit</h1>
        {owned.length > 0 && (
          <select aria-label="Of what" value={of ?? ""} onChange={(event) => setQuery({ of: event.currentTarget.value })}>
            <option value="">this project</option>
            {owned.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name} as such: members, projects
              </option>
            ))}
          </select>
        )}
      </header>
      <form class="card form" role="search" onSubmit={(event) => event.preventDefault()}>
        {FILTERS.map((name) => (
          <Field key={name} label={name.replaceAll("_", " ")}>
            <input value={query.get(name) ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value.trim() })} />
          </Field>
        ))}
      </form>
      <List<Note> what="notes" path={path} query={asked} topics={["overview"]} id={(note) => note.id} columns={columns} screen="audit">
        Whatever anybody changes by hand is noted here.
      </List>
      {change.isOpen && (known?.id === change.on ? <Change of={known} onClose={change.close} /> : <Sought id={change.on} path={path} onClose={change.close} />)}
    </>
  );
}

/** A note that a link names, where it is among the newest two thousand. */
function Sought({ id, path, onClose }: { id: string; path: string; onClose: () => void }): JSX.Element | null {
  const found = useAll<Note>(path)?.find((note) => note.id === id);
  return found ? <Change of={found} onClose={onClose} /> : null;
}

function Change({ of, onClose }: { of: Note; onClose: () => void }): JSX.Element {
  return (
    <Dialog title={`${of.action.replaceAll("_", " ")}: ${of.target_kind.replaceAll("_", " ")} ${of.target_id}`} onClose={onClose}>
      <h3>Before</h3>
      <Json value={of.before} label="before" />
      <h3>After</h3>
      <Json value={of.after} label="after" />
      {of.request_id && <p class="dim wrap">request {of.request_id}</p>}
      <div class="row end">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}
