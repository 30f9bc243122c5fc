/** API keys: who may come in, with which scopes, until when. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, type Failure } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { ApiKey } from "../api/types.ts";
import { refreshAll } from "../lib/live.ts";
import { Button, Copy, Field, Time } from "../ui/basic.tsx";
import { Confirm, type Deed, Dialog } from "../ui/dialog.tsx";
import { List } from "../ui/list.tsx";
import { Wrong } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";

const SCOPES: Record<string, string> = {
  enqueue: "create and read jobs and batches", work: "register, claim, report", read: "see everything of the project",
  operate: "cancel, retry, pause, act in bulk", admin: "queues, limits, schedules, keys",
}; // prettier-ignore

export function Keys(): JSX.Element {
  const [making, setMaking] = useState(false);
  const [deed, setDeed] = useState<Deed>();
  const revoke = (key: ApiKey): void =>
    setDeed({
      title: `Revoke ${key.name}`,
      says: "Whoever uses it is refused within a minute. This cannot be undone; make a new key first if somebody still needs one.",
      verb: "Revoke",
      danger: true,
      run: async () => (await api.delete(`/v1/api-keys/${key.id}`), { says: `${key.name} is revoked.` }),
    });
  const columns: Column<ApiKey>[] = [
    { name: "Name", cell: (key) => key.name },
    { name: "Scopes", cell: (key) => key.scopes.join(", ") },
    { name: "Used", cell: (key) => <Time at={key.last_used_at} />, wide: true },
    { name: "Made", cell: (key) => <Time at={key.created_at} />, wide: true },
    { name: "Ends", cell: (key) => (key.revoked_at ? <>revoked <Time at={key.revoked_at} /></> : <Time at={key.expires_at} />) }, // prettier-ignore
    { name: "", cell: (key) => may("admin") && !key.revoked_at && <Button aria-label={`Revoke ${key.name}`} onClick={() => revoke(key)}>Revoke</Button> }, // prettier-ignore
  ];
  return (
    <>
      <header>
        <h1>Keys</h1>
        {may("admin") && (
          <Button kind="main" onClick={() => setMaking(true)}>
            New key
          </Button>
        )}
      </header>
      <List<ApiKey> what="keys" path={`/v1/projects/${api.project}/api-keys`} topics={[]} id={(key) => key.id} columns={columns} screen="keys">
        A key belongs to this project and may do what its scopes say.
      </List>
      {making && <NewKey onClose={() => setMaking(false)} />}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </>
  );
}

function NewKey({ onClose }: { onClose: () => void }): JSX.Element {
  const [made, setMade] = useState("");
  const [error, setError] = useState<Failure>();
  const make = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const sent = new FormData(event.currentTarget as HTMLFormElement);
    const days = Number(sent.get("days"));
    try {
      const body = { name: String(sent.get("name")), scopes: sent.getAll("scope"), ...(days ? { expires_at: new Date(Date.now() + days * 86_400_000).toISOString() } : {}) };
      setMade((await api.post<{ api_key: string }>(`/v1/projects/${api.project}/api-keys`, body)).api_key);
      refreshAll();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="New key" onClose={onClose}>
      {made ? (
        <>
          <p>This is the only time that it is shown:</p>
          <p class="mono wrap">
            {made} <Copy text={made} what="key" />
          </p>
          <div class="row end">
            <Button kind="main" onClick={onClose}>
              I have it
            </Button>
          </div>
        </>
      ) : (
        <form onSubmit={(event) => void make(event)}>
          <Field label="Name">
            <input name="name" required maxLength={200} autofocus />
          </Field>
          <fieldset>
            <legend>It may</legend>
            {Object.entries(SCOPES).map(([scope, what]) => (
              <label class="row" key={scope}>
                <input type="checkbox" name="scope" value={scope} /> <strong>{scope}</strong> <span class="dim">{what}</span>
              </label>
            ))}
          </fieldset>
          <Field label="Days until it ends" hint="Empty: never.">
            <input name="days" type="number" min={1} max={3650} />
          </Field>
          {error && <Wrong error={error} />}
          <div class="row end">
            <Button onClick={onClose}>Cancel</Button>
            <button class="button main">Make it</button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
