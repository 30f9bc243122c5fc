/** One job: where it is, how it got there, why it does not run, and what may be done about it. */

import type { JSX } from "preact";

import { segment } from "../api/http.ts";
import type { Execution, Explanation, Job, JobDetail, TimelineEvent } from "../api/jobs.ts";
import type { Listed } from "../api/listed.ts";
import { duration, plural, shortId } from "../lib/format.ts";
import { HIDDEN, useHidden } from "../lib/hidden.ts";
import { type Resource, useResource } from "../lib/live.ts";
import { to, toWith } from "../lib/route.ts";
import { worded } from "../lib/said.ts";
import { Bar, Card, Facts, Id, Since, State, Time } from "../ui/basic.tsx";
import { Json } from "../ui/json.tsx";
import { Said } from "../ui/said.tsx";
import { Shown } from "../ui/states.tsx";
import { FamilyGraph } from "../ui/family-graph.tsx";
import { pathOf } from "../lib/path.ts";
import { StatesGraph } from "../ui/states-graph.tsx";
import { Actions } from "./job-actions.tsx";
import { Logs } from "./job-logs.tsx";

const FINAL: ReadonlySet<string> = new Set(["completed", "cancelled", "dead_letter"]);

export function JobScreen({ id }: { id: string }): JSX.Element {
  const path = `/v1/jobs/${segment(id)}`;
  const job = useResource<JobDetail>(path, ["jobs"]);
  const told = { timeline: useResource<Listed<TimelineEvent>>(`${path}/events`, ["jobs"]), executions: useResource<Listed<Execution>>(`${path}/executions`, ["jobs"]) };
  return <Shown of={job}>{(value) => <Detail job={value} path={path} {...told} key={value.id} />}</Shown>;
}

interface Told {
  timeline: Resource<Listed<TimelineEvent>>;
  executions: Resource<Listed<Execution>>;
}

function Detail({ job, path, timeline, executions }: { job: JobDetail; path: string } & Told): JSX.Element {
  const isHidden = useHidden();
  return (
    <>
      <header>
        <h1>{job.job_type}</h1>
        <State is={job.state} />
        <Actions job={job} />
      </header>
      <p class="row">
        <Id id={job.id} long />
        {job.reason && <span class="dim wrap">{worded(job.reason)}</span>}
      </p>
      {!FINAL.has(job.state) && !job.lease && <Why path={path} />}
      <Card title="Where it is">
        {timeline.value ? (
          <StatesGraph way={pathOf(job, timeline.value.items, executions.value?.items ?? [])} isFinal={FINAL.has(job.state)} />
        ) : (
          timeline.loading && <div class="loading" role="status" aria-label="loading" />
        )}
        {job.progress && <Progress of={job.progress} />}
        <Facts of={facts(job)} />
      </Card>
      {(job.parents.length > 0 || job.children.length > 0) && (
        <Card title="Family">
          <FamilyGraph job={job} />
        </Card>
      )}
      {job.error && <LastError job={job} executions={executions} isHidden={isHidden === true} />}
      <div class="columns">
        <Card title="Attempts">
          <Shown of={executions}>{(page) => <Attempts of={page.items} isHidden={isHidden === true} />}</Shown>
        </Card>
        <Card title="Timeline">
          <Shown of={timeline}>{(page) => <Timeline of={page.items} />}</Shown>
        </Card>
      </div>
      <Logs path={path} isLive={job.lease !== null} isHidden={isHidden === true} />
      <Carried job={job} isHidden={isHidden} />
    </>
  );
}

const CARRIED = ["result", "checkpoint", "output"] as const;

/** What it was given and what it gave, for those who may see it. */
function Carried({ job, isHidden }: { job: JobDetail; isHidden: boolean | undefined }): JSX.Element {
  if (isHidden === undefined) return <div class="loading" role="status" aria-label="loading" />;
  if (isHidden) {
    return (
      <Card title="Payload, result, checkpoint and output">
        <p class="dim">They are {HIDDEN}: so the owners of the organization have set it.</p>
      </Card>
    );
  }
  return (
    <div class="columns">
      <Card title="Payload">
        <Json value={job.payload} label="payload" />
      </Card>
      {CARRIED.filter((name) => job[name] !== null).map((name) => (
        <Card key={name} title={name.replace(/^./, (letter) => letter.toUpperCase())}>
          <Json value={job[name]} label={name} />
        </Card>
      ))}
    </div>
  );
}

const UNIQUE: Record<string, string> = { pending: "while it waits", running: "while it waits or runs", ttl: "for a time from its creation" };

function facts(job: JobDetail): [string, JSX.Element | string | number | null][] {
  return [
    ["Queue", <a href={to("queues", job.queue)}>{job.queue}</a>],
    ["Attempts", `${job.attempt_count} of ${job.max_attempts}`],
    ["Priority", job.priority],
    ["Created", <Time at={job.created_at} />],
    [FINAL.has(job.state) ? "Ended" : "Due", <Time at={job.finalized_at ?? job.run_at} />],
    ["Worker", job.lease?.worker_id ? <a href={to("workers", job.lease.worker_id)}>{shortId(job.lease.worker_id)}</a> : null],
    ["Running for", job.lease?.started_at ? <Since from={job.lease.started_at} /> : null],
    ["Lease ends", job.lease ? <Time at={job.lease.lease_expires_at} /> : null],
    ["Asked to cancel", job.lease?.cancel_requested_at ? <Time at={job.lease.cancel_requested_at} /> : null],
    ["Tags", job.tags.join(", ")],
    ["Partition", job.partition_key],
    ["Concurrency", job.concurrency ? `${job.concurrency.key ?? "own type"}, at most ${job.concurrency.limit}` : null],
    ["Rate class", job.rate_class && `${job.rate_class}, costs ${job.weight}`],
    ["Sticky worker", job.sticky_worker],
    ["Time-out", job.timeout_ms === null ? null : duration(job.timeout_ms)],
    ["Unique", job.unique && (UNIQUE[job.unique.window] ?? job.unique.window)],
    ["Idempotency key", job.idempotency_key],
    ["Batch", job.batch_id && <a href={to("batches", job.batch_id)}>{shortId(job.batch_id)}</a>],
    ["Scheduled for", job.scheduled_for && <Time at={job.scheduled_for} />],
    ["Principal", job.principal_id && <a href={toWith({ principal_id: job.principal_id }, "jobs")}>{job.principal_id}</a>],
    ["Correlation", job.correlation_id && <a href={toWith({ correlation_id: job.correlation_id }, "jobs")}>{job.correlation_id}</a>],
    ["Fingerprint", job.fingerprint && <a href={toWith({ fingerprint: job.fingerprint }, "jobs")}>{shortId(job.fingerprint)}</a>],
    ["Crashes", job.crash_count || null],
    ["Trace", job.traceparent],
    ["Version of the payload", job.schema_version],
  ];
}

/** The answer to the question that everybody asks. */
function Why({ path }: { path: string }): JSX.Element {
  const explanation = useResource<Explanation>(`${path}/explain`, ["jobs", "queues", "workers"]);
  return (
    <Card title="Why is it not running?">
      <Shown of={explanation}>
        {(value) => (
          <>
            {value.blocked_by.length === 0 && <p>Nothing holds it back: the next claim takes it.</p>}
            <ul class="reasons">
              {value.blocked_by.map((block) => (
                <li key={block.reason}>
                  <strong>{block.reason.replaceAll("_", " ")}:</strong>{" "}
                  <span class="wrap">
                    <Said text={block.detail} isOfJobs />
                  </span>{" "}
                  <span class="dim">
                    {block.since && (
                      <>
                        for <Since from={block.since} />
                      </>
                    )}{" "}
                    {block.clears_at && (
                      <>
                        · clears <Time at={block.clears_at} />
                      </>
                    )}
                  </span>
                </li>
              ))}
            </ul>
            {value.notes.map((note) => (
              <p key={note} class="dim wrap">
                Beside that: <Said text={note} isOfJobs />.
              </p>
            ))}
            {(value.position !== null || value.estimated_start_at) && (
              <p class="dim">
                {value.position !== null && (value.position === 0 ? "No job is ahead of it. " : `${plural(value.position, "job")} ahead of it. `)}
                {value.estimated_start_at && (
                  <>
                    Likely to start <Time at={value.estimated_start_at} />.
                  </>
                )}
              </p>
            )}
          </>
        )}
      </Shown>
    </Card>
  );
}

function Progress({ of }: { of: NonNullable<Job["progress"]> }): JSX.Element {
  const share = of.total ? Math.min(100, (100 * (of.current ?? 0)) / of.total) : 0;
  return (
    <div>
      <p>
        {of.current ?? 0}
        {of.total ? ` of ${of.total}` : ""} {of.message && <span class="dim wrap">{of.message}</span>}
      </p>
      {of.total ? (
        <Bar label="progress" share={share / 100} />
      ) : null}
    </div>
  );
}

function LastError({ job, executions, isHidden }: { job: JobDetail; executions: Resource<Listed<Execution>>; isHidden: boolean }): JSX.Element {
  const last = executions.value?.items.filter((one) => one.error).sort((a, b) => b.fence - a.fence)[0];
  return (
    <Card title="Error" aside={job.error?.class ? <a href={toWith({ error_class: job.error.class }, "jobs")}>all with {job.error.class}</a> : null}>
      <p class="wrap">
        <strong>{job.error?.class}</strong> {isHidden ? <span class="dim">its text is {HIDDEN}</span> : job.error?.message}
      </p>
      {last?.stack && (
        <pre class="stack" tabIndex={0} role="region" aria-label="stack">
          {last.stack}
        </pre>
      )}
    </Card>
  );
}

function Attempts({ of, isHidden }: { of: readonly Execution[]; isHidden: boolean }): JSX.Element {
  if (!of.length) return <p class="dim">None has ended yet.</p>;
  const longest = Math.max(1, ...of.map((one) => one.duration_ms));
  return (
    <ol class="timeline">
      {of.map((one) => (
        <li key={one.id}>
          <div class="row">
            <strong>{one.attempt}.</strong> <State is={one.status} /> <span>{duration(one.duration_ms)}</span> <Time at={one.finished_at} />
            {one.worker_id && <a href={to("workers", one.worker_id)}>{shortId(one.worker_id)}</a>}
            {one.exit_code !== null && <span>exit code {one.exit_code}</span>}
          </div>
          <Bar share={Math.max(0.01, one.duration_ms / longest)} />
          {one.error && (
            <p class="dim wrap">
              {one.error.class}: {isHidden ? HIDDEN : one.error.message}
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}

function Timeline({ of }: { of: readonly TimelineEvent[] }): JSX.Element {
  return (
    <ol class="timeline">
      {of.map((event, index) => (
        <li key={`${event.at}${index}`}>
          <div class="row">
            <strong>{event.event.replaceAll("_", " ")}</strong> <Time at={event.at} /> {event.attempt !== null && <span class="dim">attempt {event.attempt}</span>}
          </div>
          {event.detail && <p class="dim wrap">{worded(event.detail)}</p>}
        </li>
      ))}
    </ol>
  );
}

