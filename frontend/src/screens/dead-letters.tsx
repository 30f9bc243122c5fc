/** Dead letters by kind of error: what is failing, since when, and a careful way to try again: one, then three, then the rest. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { DeadLetter, ErrorGroup } from "../api/dead-letters.ts";
import type { Listed } from "../api/listed.ts";
import { count } from "../lib/format.ts";
import { HIDDEN } from "../lib/hidden.ts";
import { refreshAll } from "../lib/live.ts";
import { usePages } from "../lib/pages.ts";
import { queryOf, setQuery, to, toWith } from "../lib/route.ts";
import { worded } from "../lib/said.ts";
import { Button, Card, Id, Time } from "../ui/basic.tsx";
import { type Action, Planned, usePlan } from "../ui/bulk.tsx";
import { say } from "../ui/dialog.tsx";
import { List } from "../ui/list.tsx";
import { Sparkline } from "../ui/sparkline.tsx";
import { ListTrouble, NothingYet, Wrong } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";

const CANARY = 3;
const GROUPS = queryOf({ group_by: "error" });

export function DeadLetters({ query }: { query: URLSearchParams }): JSX.Element {
  const byOne = query.get("view") === "jobs";
  return (
    <>
      <header>
        <h1>Dead letters</h1>
        <div class="chips" role="group" aria-label="Show">
          <button type="button" class="chip" aria-pressed={!byOne} onClick={() => setQuery({ view: null })}>
            By error
          </button>
          <button type="button" class="chip" aria-pressed={byOne} onClick={() => setQuery({ view: "jobs" })}>
            One by one
          </button>
        </div>
      </header>
      {byOne ? <OneByOne /> : <ByError />}
    </>
  );
}

function ByError(): JSX.Element {
  const plan = usePlan();
  const groups = usePages<ErrorGroup>("/v1/dead-letters", GROUPS, ["jobs"], (group) => group.error_group);
  if (groups.loading) return <div class="loading" role="status" aria-label="loading" />;
  return (
    <>
      <ListTrouble of={groups} />
      {groups.rows.map((group) => (
        <Group key={group.error_group} of={group} isPlanning={plan.isMaking} onPlan={(action) => plan.make(action, group.filter)} />
      ))}
      {plan.error && <Wrong error={plan.error} />}
      <Planned />
      {groups.more && <Button onClick={groups.onEnd}>More kinds of errors</Button>}
      {!groups.rows.length && !groups.error && <NothingYet what="dead letters">Jobs that fail for good come here, with all that is known of why.</NothingYet>}
    </>
  );
}

function Group({ of, isPlanning, onPlan }: { of: ErrorGroup; isPlanning: boolean; onPlan: (action: Action) => void }): JSX.Element {
  const [busy, setBusy] = useState(false);
  const some = async (n: number): Promise<void> => {
    setBusy(true);
    try {
      const page = await api.get<Listed<DeadLetter>>("/v1/dead-letters", { query: { ...asQuery(of.filter), limit: n } });
      const settled = await Promise.allSettled(page.items.map((letter) => api.post(`/v1/dead-letters/${letter.job_id}/resolve`, { action: "retry" })));
      const failed = settled.filter((one) => one.status === "rejected").length;
      say(`${settled.length - failed} retried${failed ? `, ${failed} could not` : ""}: see how ${settled.length === 1 ? "it fares" : "they fare"} before the rest.`, undefined, failed ? "bad" : "good");
      refreshAll();
    } catch (error) {
      say((error as Error).message, undefined, "bad");
    } finally {
      setBusy(false);
    }
  };
  const open = of.count.count;
  return (
    <Card title={of.error_class ?? "without an error"} aside={<span class="dim">24 h <Sparkline values={of.last_24_h} label="deaths per hour, the last 24 h" /></span>}>
      {of.message === null ? <p class="dim">its text is {HIDDEN}</p> : <p class="wrap mono">{of.message}</p>}
      <p class="dim wrap">
        <strong>{count(of.count)} open</strong>, {count(of.total)} in all · first seen <Time at={of.first_seen_at} /> · last seen <Time at={of.last_seen_at} /> · {of.job_types.join(", ")} · {of.queues.join(", ")}
      </p>
      <div class="row">
        {may("operate") && open > 0 && (
          <>
            <Button busy={busy} onClick={() => void some(1)}>
              Retry one
            </Button>
            {open > 1 && (
              <Button kind="main" busy={busy} onClick={() => void some(CANARY)}>
                Retry a canary of {Math.min(CANARY, open)}
              </Button>
            )}
            <Button busy={isPlanning} kind={open > 1 ? "plain" : "main"} onClick={() => onPlan("retry")}>
              Retry all…
            </Button>
            <Button busy={isPlanning} kind="danger" onClick={() => onPlan("discard")}>
              Discard all…
            </Button>
          </>
        )}
        <a href={toWith(asQuery(of.filter), "jobs")}>The jobs</a>
        {of.sample_job_id && <a href={to("jobs", of.sample_job_id)}>The latest one</a>}
      </div>
    </Card>
  );
}

/** A filter as the query of a list. */
function asQuery(filter: Record<string, unknown>): Record<string, string | string[]> {
  return Object.fromEntries(Object.entries(filter).map(([name, value]) => [name, Array.isArray(value) ? value.map(String) : String(value)]));
}

const COLUMNS: readonly Column<DeadLetter>[] = [
  { name: "Job", cell: (letter) => <Id id={letter.job_id} href={to("jobs", letter.job_id)} />, wide: true },
  { name: "Type", cell: (letter) => <a href={to("jobs", letter.job_id)}>{letter.job_type}</a> },
  { name: "Queue", cell: (letter) => letter.queue, wide: true },
  { name: "Error", cell: (letter) => <span title={letter.error?.message ?? ""}>{letter.error?.class ?? worded(letter.reason)}</span> },
  { name: "Attempts", cell: (letter) => letter.attempt_count, end: true, wide: true },
  { name: "Died", cell: (letter) => <Time at={letter.moved_at} /> },
];

function OneByOne(): JSX.Element {
  return (
    <List<DeadLetter> what="dead letters" path="/v1/dead-letters" topics={["jobs"]} id={(letter) => letter.id} columns={COLUMNS} href={(letter) => to("jobs", letter.job_id)} screen="dead-letters">
      Jobs that fail for good come here.
    </List>
  );
}
