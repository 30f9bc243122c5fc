/** API keys: who may come in, with which scopes, until when. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { ApiKey } from "../api/access.ts";
import { now as timeNow, useNow } from "../lib/clock.ts";
import type { Body, Input } from "../lib/forms.ts";
import { Button, Time } from "../ui/basic.tsx";
import { Confirm, type Deed, Dialog } from "../ui/dialog.tsx";
import { Form } from "../ui/form.tsx";
import { List } from "../ui/list.tsx";
import { Secret } from "../ui/secret.tsx";
import type { Column } from "../ui/table.tsx";

const SCOPES: Record<string, string> = {
  enqueue: "create and read jobs and batches", work: "register, claim, report", read: "see everything of the project",
  operate: "cancel, retry, pause, act in bulk", admin: "queues, limits, schedules, keys",
}; // prettier-ignore
const DAY_MS = 86_400_000;

export function Keys(): JSX.Element {
  const [asked, setAsked] = useState<"new" | ApiKey>();
  const [deed, setDeed] = useState<Deed>();
  const now = useNow();
  // a key that was just rotated away ended after the last tick of the page's clock
  const isOver = (key: ApiKey): boolean => key.revoked_at !== null || (key.expires_at !== null && Date.parse(key.expires_at) <= Math.max(now, timeNow()));
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
    { name: "Scopes", cell: (key) => key.scopes.join(", "), wide: true },
    { name: "Used", cell: (key) => <Time at={key.last_used_at} />, wide: true },
    { name: "Made", cell: (key) => <Time at={key.created_at} />, wide: true },
    { name: "Ends", cell: (key) => (key.revoked_at ? <>revoked <Time at={key.revoked_at} /></> : key.expires_at ? <Time at={key.expires_at} /> : "never") }, // prettier-ignore
    {
      name: "",
      cell: (key) =>
        may("admin") &&
        !isOver(key) && (
          <span class="row tight">
            <Button aria-label={`Rotate ${key.name}`} onClick={() => setAsked(key)}>
              Rotate
            </Button>
            <Button aria-label={`Revoke ${key.name}`} onClick={() => revoke(key)}>
              Revoke
            </Button>
          </span>
        ),
    },
  ];
  return (
    <>
      <header>
        <h1>Keys</h1>
        {may("admin") && (
          <Button kind="main" onClick={() => setAsked("new")}>
            New key
          </Button>
        )}
      </header>
      <List<ApiKey> what="keys" path={`/v1/projects/${api.project}/api-keys`} topics={["overview"]} id={(key) => key.id} columns={columns} screen="keys">
        A key belongs to this project and may do what its scopes say.
      </List>
      {asked === "new" ? <NewKey onClose={() => setAsked(undefined)} /> : asked && <Rotate of={asked} onClose={() => setAsked(undefined)} />}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </>
  );
}

const SCOPE_INPUTS: Input[] = Object.entries(SCOPES).map(([scope, hint]) => ({ name: `scopes.${scope}`, label: scope, is: "flag", hint }));

function NewKey({ onClose }: { onClose: () => void }): JSX.Element {
  const inputs: Input[] = [{ name: "name", label: "Name", required: true, hint: "who or what uses it" }, { name: "ends", label: "Ends after", is: "span", hint: "such as 90 d; empty: never" }, ...SCOPE_INPUTS]; // prettier-ignore
  const make = async ({ ends, scopes, ...body }: Body): Promise<string> => {
    const chosen = Object.entries(scopes as Record<string, boolean>).flatMap(([scope, has]) => (has ? [scope] : []));
    const until = ends === undefined ? {} : { expires_at: new Date(timeNow() + Number(ends)).toISOString() };
    return (await api.post<{ api_key: string }>(`/v1/projects/${api.project}/api-keys`, { ...body, ...until, scopes: chosen })).api_key;
  };
  return <Made title="New key" inputs={inputs} verb="Make it" make={make} onClose={onClose} />;
}

function Rotate({ of, onClose }: { of: ApiKey; onClose: () => void }): JSX.Element {
  const inputs: Input[] = [{ name: "overlap_ms", label: "The old one goes on for", is: "span", value: DAY_MS, hint: "time to put the new one everywhere; 0 s: it ends at once", required: true }]; // prettier-ignore
  const make = async (body: Body): Promise<string> => (await api.post<{ api_key: string }>(`/v1/api-keys/${of.id}/rotate`, body)).api_key;
  return (
    <Made title={`Rotate ${of.name}`} inputs={inputs} verb="Make the new one" make={make} onClose={onClose}>
      <p>A new key with the same name, scopes and end takes its place.</p>
    </Made>
  );
}

interface MadeProps {
  title: string;
  inputs: Input[];
  verb: string;
  make: (body: Body) => Promise<string>;
  onClose: () => void;
  children?: JSX.Element;
}

/** A form whose answer is a secret. */
function Made({ title, inputs, verb, make, onClose, children }: MadeProps): JSX.Element {
  const [secret, setSecret] = useState("");
  return (
    <Dialog title={title} onClose={onClose}>
      {secret ? (
        <Secret says="This is the only time that it is shown:" text={secret} what="key" onClose={onClose} />
      ) : (
        <Form inputs={inputs} verb={verb} onSend={async (body) => setSecret(await make(body))} onCancel={onClose}>
          {children}
        </Form>
      )}
    </Dialog>
  );
}
