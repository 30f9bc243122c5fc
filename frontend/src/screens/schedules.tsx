/** Schedules: when each fires next, in both zones; what came of each occurrence; and an editor that shows the next clock changes. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Listed } from "../api/listed.ts";
import type { Schedule, ScheduleEvent } from "../api/schedules.ts";
import { duration, inZone, utc, zone as ownZone } from "../lib/format.ts";
import { useResource } from "../lib/live.ts";
import { useOver } from "../lib/over.ts";
import { go, to } from "../lib/route.ts";
import { Button, Card, Facts, Id, State, Time } from "../ui/basic.tsx";
import { attempt, Confirm, type Deed } from "../ui/dialog.tsx";
import { Json } from "../ui/json.tsx";
import { List } from "../ui/list.tsx";
import { Said } from "../ui/said.tsx";
import { Shown } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";
import { ScheduleEditor } from "./schedule-editor.tsx";

const COLUMNS: readonly Column<Schedule>[] = [
  { name: "Name", cell: (one) => <a href={to("schedules", one.name)}>{one.name}</a> },
  { name: "When", cell: (one) => <span class="clip" title={`${timing(one)} ${one.cron ?? ""}`}>{timing(one)}</span> },
  { name: "Next", cell: (one) => (one.is_paused ? <State is="paused" /> : <Time at={one.next_run_at} />) },
  { name: "In its zone", cell: (one) => one.next_run_at && !one.is_paused && `${inZone(one.next_run_at, one.timezone)} ${one.timezone}`, wide: true },
  { name: "Last", cell: (one) => <Time at={one.last_run_at} />, wide: true },
  { name: "Note", cell: (one) => one.error ?? one.note ?? "", wide: true },
];

/** "every 5 min" or the words of the expression. */
export function timing(one: Schedule): string {
  return one.every_ms === null ? (one.description ?? one.cron ?? "") : `every ${duration(one.every_ms)}`;
}

export function Schedules(): JSX.Element {
  return (
    <>
      <header>
        <h1>Schedules</h1>
        {may("admin") && (
          <Button kind="main" onClick={() => go(to("new-schedule"))}>
            New schedule
          </Button>
        )}
      </header>
      <List<Schedule> what="schedules" path="/v1/schedules" topics={["schedules"]} id={(one) => one.name} columns={COLUMNS} href={(one) => to("schedules", one.name)} screen="schedules">
        Declare one beside its job with <code>@app.schedule("0 6 * * *", …)</code>, or make one here.
      </List>
    </>
  );
}

export function ScheduleScreen({ name }: { name: string }): JSX.Element {
  const schedule = useResource<Schedule>(`/v1/schedules/${segment(name)}`, ["schedules"]);
  return <Shown of={schedule}>{(value) => <Detail of={value} />}</Shown>;
}

function Detail({ of }: { of: Schedule }): JSX.Element {
  const path = `/v1/schedules/${segment(of.name)}`;
  const events = useResource<Listed<ScheduleEvent>>(`${path}/events`, ["schedules"]);
  const preview = useResource<{ fires: string[] }>(`${path}/preview?n=10`, ["schedules"]);
  const editing = useOver("edit");
  const [deed, setDeed] = useState<Deed>();
  const verb = (name: string, says: string): void => void attempt(async () => (await api.post(`${path}/${name}`), { says }));
  if (editing.isOpen && may("admin")) return <ScheduleEditor of={of} onDone={editing.close} />;
  return (
    <>
      <header>
        <h1>{of.name}</h1>
        {of.is_paused && <State is="paused" />}
        {may("operate") && (
          <div class="row" role="group" aria-label="Actions">
            {of.is_paused ? <Button onClick={() => verb("resume", "Resumed; nothing fires by that alone.")}>Resume</Button> : <Button onClick={() => verb("pause", "Paused.")}>Pause</Button>}
            <Button onClick={() => verb("trigger", "One job is made, beside the schedule.")}>Run one now</Button>
          </div>
        )}
        {may("admin") && (
          <>
            <Button onClick={() => editing.open()}>Edit</Button>
            <Button
              kind="danger"
              onClick={() =>
                setDeed({
                  title: `Delete ${of.name}`,
                  says: "No more jobs are made by it. Those that it made stay.",
                  verb: "Delete",
                  danger: true,
                  run: async () => {
                    await api.delete(path);
                    go(to("schedules"));
                    return { says: `${of.name} is deleted.` };
                  },
                })
              }
            >
              Delete
            </Button>
          </>
        )}
      </header>
      {of.error && (
        <p class="banner wrap">
          <Said text={of.error} />
        </p>
      )}
      <div class="columns">
        <Card title="When">
          <p>{timing(of)}</p>
          <Facts
            of={[
              ["Expression", of.cron && <code>{of.cron}</code>],
              ["Zone", of.timezone],
              ["Missed ones", of.on_missed.replaceAll("_", " ")],
              ["Overlap", of.overlap.replaceAll("_", " ")],
              ["Hour that is skipped", of.on_gap.replaceAll("_", " ")],
              ["Hour that comes twice", of.on_fold],
              ["Jitter", of.jitter_ms ? duration(of.jitter_ms) : null],
              ["From", of.starts_at && <Time at={of.starts_at} />],
              ["Until", of.ends_at && <Time at={of.ends_at} />],
              ["Declared by", of.declared_by],
              ["Note", of.note && <Said text={of.note} />],
            ]}
          />
        </Card>
        <Card title="Next">
          <Shown of={preview}>{(value) => <Fires of={value.fires} zone={of.timezone} />}</Shown>
        </Card>
      </div>
      <Card title="The last occurrences">
        <Shown of={events}>
          {(page) =>
            page.items.length ? (
              <ol class="timeline">
                {page.items.map((event, index) => (
                  <li key={`${event.at}${index}`}>
                    <div class="row">
                      <strong>{event.kind.replaceAll("_", " ")}</strong> <span>{utc(event.scheduled_at)}</span> <Time at={event.at} />
                      {event.job_id && <Id id={event.job_id} href={to("jobs", event.job_id)} />}
                    </div>
                    {event.reason && (
                      <p class="dim wrap">
                        <Said text={event.reason} />
                      </p>
                    )}
                  </li>
                ))}
              </ol>
            ) : (
              <p class="dim">None yet.</p>
            )
          }
        </Shown>
      </Card>
      <Card title="The job that it makes">
        <Json value={of.job} label="job" />
      </Card>
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </>
  );
}

/** Instants in the schedule's zone and on the reader's clock. */
export function Fires({ of, zone }: { of: readonly string[]; zone: string }): JSX.Element {
  if (!of.length) return <p class="dim">It never fires.</p>;
  const elsewhere = zone !== ownZone();
  const isWhole = of.every((fire) => new Date(fire).getUTCSeconds() === 0);
  const told = (fire: string, where: string): string => (isWhole ? inZone(fire, where).replace(/(:\d\d):00/, "$1") : inZone(fire, where));
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Next occurrences">
      <table>
        <thead>
          <tr>
            <th scope="col" class="wrap">
              {zone}
            </th>
            {elsewhere && (
              <th scope="col" class="wide wrap">
                Here, {ownZone()}
              </th>
            )}
            <th scope="col">In</th>
          </tr>
        </thead>
        <tbody>
          {of.map((fire) => (
            <tr key={fire}>
              <td>{told(fire, zone)}</td>
              {elsewhere && <td class="wide">{told(fire, ownZone())}</td>}
              <td>
                <Time at={fire} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
