/** Quarantine: payloads that took their workers with them, set aside until somebody has looked. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api } from "../api/http.ts";
import { may } from "../api/session.ts";
import { count, type Counted, plural, shortId } from "../lib/format.ts";
import { usePages } from "../lib/pages.ts";
import { to, toWith } from "../lib/route.ts";
import { Button, Card, Copy, Facts, Id, Time } from "../ui/basic.tsx";
import { Confirm, type Deed } from "../ui/dialog.tsx";
import { ListTrouble, NothingYet } from "../ui/states.tsx";

interface Quarantined {
  fingerprint: string;
  job_type: string;
  status: string;
  reason: string | null;
  losses: number;
  last_exit_code: number | null;
  first_loss_at: string;
  last_loss_at: string;
  quarantined_at: string;
  jobs: Counted;
  sample: string[];
  actions: string[];
}

const NO_QUERY = new URLSearchParams();
const SAYS: Record<string, string> = {
  release: "What is set aside goes back to its queue, at its first attempt, and later jobs with this payload run again; they may take workers with them. Losses count anew.",
  discard: "They are cancelled. The payload stays in quarantine: later jobs with it are set aside too, until it is released.",
};

export function QuarantineScreen(): JSX.Element {
  const list = usePages<Quarantined>("/v1/quarantine", NO_QUERY, ["jobs"], (one) => one.fingerprint);
  const [deed, setDeed] = useState<Deed>();
  const ask = (one: Quarantined, verb: string): void =>
    setDeed({
      title: `${verb} ${one.job_type}`,
      says: `${count(one.jobs)} ${one.jobs.count === 1 ? "job is" : "jobs are"} set aside. ${SAYS[verb] ?? ""}`,
      verb,
      danger: true,
      run: async () => {
        const done = await api.post<{ moved: number; is_done: boolean }>(`/v1/quarantine/${one.fingerprint}/${verb}`);
        return { says: `${verb}: ${plural(done.moved, "job")}${done.is_done ? "" : ", the scheduler does the rest"}.` };
      },
    });
  return (
    <>
      <header>
        <h1>Quarantine</h1>
      </header>
      <ListTrouble of={list} />
      {list.loading && <div class="loading" role="status" aria-label="loading" />}
      {list.rows.map((one) => (
        <Card key={one.fingerprint} title={one.job_type} aside={<span class="dim">{one.status}</span>}>
          <p>
            <strong>{count(one.jobs)}</strong> set aside after {plural(one.losses, "loss", "losses")}: {one.reason === "crash" ? "its process died" : "its worker went silent"}
            {one.last_exit_code === null ? "" : ` (exit code ${one.last_exit_code})`}
          </p>
          <Facts
            of={[
              ["Since", <Time at={one.quarantined_at} />],
              ["First loss", <Time at={one.first_loss_at} />],
              ["Last loss", <Time at={one.last_loss_at} />],
              ["Fingerprint", <>{shortId(one.fingerprint)} <Copy text={one.fingerprint} what="fingerprint" /></>],
            ]}
          />
          <div class="row">
            {may("operate") &&
              one.actions.filter((verb) => verb !== "discard" || one.jobs.count > 0).map((verb) => (
                <Button key={verb} kind={verb === "discard" ? "danger" : "plain"} onClick={() => ask(one, verb)}>
                  {verb}
                </Button>
              ))}
            <a href={toWith({ fingerprint: one.fingerprint }, "jobs")}>The jobs</a>
            {one.sample.slice(0, 3).map((id) => (
              <Id key={id} id={id} href={to("jobs", id)} />
            ))}
          </div>
        </Card>
      ))}
      {!list.loading && !list.rows.length && !list.error && (
        <NothingYet what="quarantined jobs">A payload that crashes its worker, or lets its lease run out, three times within a day is set aside here.</NothingYet>
      )}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </>
  );
} // prettier-ignore
