/** The error webhook: where a project's errors are told, whether that arrives, and what may be done about it. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { api, Problem } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Webhook } from "../api/webhooks.ts";
import { plural } from "../lib/format.ts";
import { refreshAll, useResource } from "../lib/live.ts";
import { useOver } from "../lib/over.ts";
import { Button, Card, Copy, Facts, State, Time } from "../ui/basic.tsx";
import { attempt, Confirm, type Deed, Dialog } from "../ui/dialog.tsx";
import { Secret } from "../ui/secret.tsx";
import { NothingYet, Shown } from "../ui/states.tsx";
import { Deliveries } from "./webhook-deliveries.tsx";
import { EVENTS, SetWebhook } from "./webhook-settings.tsx";

const PATH = "/v1/webhook";
const URL_CHARS = 120;
const LOOK_MS = 2_000;
const LOOKS = 30;

export function ErrorWebhook(): JSX.Element {
  const webhook = useResource<Webhook>(PATH, ["overview"]);
  const over = useOver("webhook");
  const [secret, setSecret] = useState("");
  const isNone = webhook.error instanceof Problem && webhook.error.status === 404;
  const known = isNone ? undefined : webhook.value;
  return (
    <Card title="Error webhook" id="webhook" aside={known && <State is={known.status} />}>
      {isNone ? (
        <NothingYet what="webhook">
          <p>A URL of yours that is told which kinds of errors jobs die of.</p>
          {may("admin") && <Button onClick={() => over.open()}>Set a webhook</Button>}
        </NothingYet>
      ) : (
        <Shown of={webhook}>{(value) => <Detail of={value} onEdit={() => over.open()} onSecret={setSecret} />}</Shown>
      )}
      {over.isOpen && may("admin") && (isNone || known) && <SetWebhook of={known} onSecret={setSecret} onClose={over.close} />}
      {secret && (
        <Dialog title="The webhook's secret" onClose={() => setSecret("")}>
          <Secret says="Its calls are signed with it. This is the only time that it is shown:" text={secret} what="secret" onClose={() => setSecret("")} />
        </Dialog>
      )}
    </Card>
  );
}

function Detail({ of, onEdit, onSecret }: { of: Webhook; onEdit: () => void; onSecret: (secret: string) => void }): JSX.Element {
  const [deed, setDeed] = useState<Deed>();
  const test = useTest(of);
  const flip = (): void => {
    const set = (is_paused: boolean): Promise<unknown> => api.put(PATH, { url: of.url, events: of.events, queues: of.queues, is_paused });
    const says = of.is_paused ? "The webhook is told again, of what happens from now on." : "The webhook is paused: what happens meanwhile is not noted for it.";
    void attempt(async () => (await set(!of.is_paused), { says, undo: () => set(of.is_paused) }));
  };
  const rotate = (): void =>
    setDeed({
      title: "Make a new secret",
      says: "For a day calls are signed with the old and the new one, so that none is refused meanwhile; then the old one ends.",
      verb: "Make it",
      run: async () => onSecret((await api.post<{ secret: string }>(`${PATH}/rotate`)).secret),
    });
  const remove = (): void =>
    setDeed({
      title: "Remove the webhook",
      says: `Its secret and the list of its calls go with it${of.waiting ? `, and ${plural(of.waiting, "kind")} of errors that it was still to be told` : ""}. This cannot be undone.`,
      verb: "Remove it",
      danger: true,
      run: async () => (await api.delete(PATH), { says: "The webhook is removed." }),
    });
  return (
    <>
      {of.status === "failing" && (
        <p class="banner wrap">
          Its calls have not arrived since <Time at={of.failing_since} />: {of.last_error}. It is called every five minutes until one does; nothing is lost meanwhile.
        </p>
      )}
      <p class="wrap">
        Goes to <code>{of.url.length > URL_CHARS ? `${of.url.slice(0, URL_CHARS)}…` : of.url}</code>
        <Copy text={of.url} what="address" />
      </p>
      <Facts
        of={[
          ["Is told when", of.events.map((event) => EVENTS[event] ?? event).join(", ")],
          ["Of the queues", of.queues?.join(", ") ?? "all"],
          ["Last arrived", <Time at={of.last_success_at} />],
          ["Last failed", of.last_failure_at && <Time at={of.last_failure_at} />],
          ["Attempts failed since", of.failed_attempts || null],
          ["Why", of.status === "failing" || !of.failed_attempts ? null : of.last_error],
          ["Still to be told", of.waiting ? plural(of.waiting, "kind") : null],
          ["Old secret signs until", of.old_secret_until && <Time at={of.old_secret_until} />],
        ]}
      />
      <div class="row" role="group" aria-label="Webhook">
        {(may("operate") || may("admin")) && (
          <Button busy={test.isUnderWay} onClick={test.begin}>
            {test.isUnderWay ? "A test is on its way…" : "Send a test"}
          </Button>
        )}
        {may("admin") && (
          <>
            <Button onClick={flip}>{of.is_paused ? "Resume" : "Pause"}</Button>
            <Button onClick={onEdit}>Change it</Button>
            <Button onClick={rotate}>New secret</Button>
            <Button kind="danger" onClick={remove}>
              Remove
            </Button>
          </>
        )}
      </div>
      <h3>Its calls of the last seven days</h3>
      <Deliveries />
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </>
  );
}

/** A test call, looked after until it has arrived or failed, a minute at most: it goes with the scheduler's next pass. */
function useTest(of: Webhook): { isUnderWay: boolean; begin: () => void } {
  const [asked, setAsked] = useState<{ at: string; looks: number }>();
  const ended = [of.last_success_at, of.last_failure_at].some((at) => at !== null && asked !== undefined && at >= asked.at);
  useEffect(() => {
    if (!asked || ended || asked.looks >= LOOKS) return setAsked(undefined);
    const timer = setTimeout(() => (refreshAll(), setAsked({ ...asked, looks: asked.looks + 1 })), LOOK_MS);
    return () => clearTimeout(timer);
  }, [asked, ended]);
  const begin = (): void =>
    void attempt(async () => {
      const { asked_at } = await api.post<{ asked_at: string }>(`${PATH}/test`);
      setAsked({ at: asked_at, looks: 0 });
      return { says: "A test call is on its way: it is in the list when it is sent." };
    });
  return { isUnderWay: asked !== undefined, begin };
}
