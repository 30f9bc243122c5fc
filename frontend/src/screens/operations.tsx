/** Bulk operations: planned, under way, over; each with what it touched and whether it can be undone. */

import type { JSX } from "preact";

import { segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Operation } from "../api/operations.ts";
import { count } from "../lib/format.ts";
import { useResource } from "../lib/live.ts";
import { useOperation } from "../lib/operation.ts";
import { to } from "../lib/route.ts";
import { Bar, Button, Card, Facts, Id, Time } from "../ui/basic.tsx";
import { Progress, REMOVES, Touches } from "../ui/bulk.tsx";
import { Json } from "../ui/json.tsx";
import { List } from "../ui/list.tsx";
import { Shown, Wrong } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";

const COLUMNS: readonly Column<Operation>[] = [
  { name: "Action", cell: (one) => <a href={to("operations", one.id)}>{one.action.replaceAll("_", " ")}</a> },
  { name: "Status", cell: (one) => one.status },
  { name: "Done", cell: (one) => (<>{count(one.affected)} of {count(one.total ?? one.estimate)}<Bar share={one.progress ?? 0} /></>) }, // prettier-ignore
  { name: "Filter", cell: (one) => <span class="mono">{JSON.stringify(one.filter)}</span>, wide: true },
  { name: "Made", cell: (one) => <Time at={one.created_at} /> },
];

export function Operations(): JSX.Element {
  return (
    <>
      <header>
        <h1>Operations</h1>
      </header>
      <List<Operation> what="operations" path="/v1/operations" topics={["overview"]} id={(one) => one.id} columns={COLUMNS} href={(one) => to("operations", one.id)} screen="operations">
        Filter the <a href={to("jobs")}>jobs</a>, then act on all that match.
      </List>
    </>
  );
}

export function OperationScreen({ id }: { id: string }): JSX.Element {
  const operation = useResource<Operation>(`/v1/operations/${segment(id)}`, ["overview", "jobs"]);
  return <Shown of={operation}>{(value) => <Detail known={value} />}</Shown>;
}

function Detail({ known }: { known: Operation }): JSX.Element {
  const { operation: value = known, error, drifted, step } = useOperation(known);
  const words: Record<string, string> = { apply: drifted ? "apply all the same" : "apply", abort: value.status === "planned" ? "drop the plan" : "stop here" };
  return (
    <>
      <header>
        <h1 class="cap">{value.action.replaceAll("_", " ")}</h1>
        {may("operate") &&
          value.actions.map((verb) => (
            <Button key={verb} kind={verb !== "apply" ? "plain" : REMOVES.has(value.action) ? "danger" : "main"} onClick={() => step(verb)}>
              {words[verb] ?? verb}
            </Button>
          ))}
      </header>
      {error && <Wrong error={error} />}
      <Card title="Progress">{value.status === "planned" ? <Touches of={value} /> : <Progress of={value} />}</Card>
      <div class="columns">
        <Card title="About">
          <Facts
            of={[
              ["Id", <Id id={value.id} />],
              ["Made", <Time at={value.created_at} />],
              ["Applied", value.applied_at && <Time at={value.applied_at} />],
              ["Ended", value.finished_at && <Time at={value.finished_at} />],
            ]}
          />
        </Card>
        <Card title="Filter">
          <Json value={value.filter} label="filter" />
        </Card>
      </div>
      {value.sample.length > 0 && (
        <Card title="Some of them">
          <div class="row">
            {value.sample.map((job) => (
              <Id key={job} id={job} href={to("jobs", job)} />
            ))}
          </div>
        </Card>
      )}
    </>
  );
}
