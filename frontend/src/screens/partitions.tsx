/** A queue's partitions: who waits, who is served, and how much of the service each is to have. */

import type { JSX } from "preact";

import { api, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Partition } from "../api/stats.ts";
import { useAll } from "../lib/all.ts";
import { count, duration } from "../lib/format.ts";
import { useOver } from "../lib/over.ts";
import { Bar, Button, Card } from "../ui/basic.tsx";
import { FormDialog } from "../ui/form.tsx";
import { List } from "../ui/list.tsx";
import type { Column } from "../ui/table.tsx";

export function Partitions({ path }: { path: string }): JSX.Element {
  const weighing = useOver("weight");
  const mayWeigh = may("operate") || may("admin");
  const columns: Column<Partition>[] = [
    { name: "Partition", cell: (one) => one.partition_key || <span class="dim">without a key</span> },
    { name: "Waiting", cell: (one) => count(one.waiting), end: true },
    { name: "Running", cell: (one) => one.running, end: true, wide: true },
    {
      name: "Weight",
      cell: (one) =>
        mayWeigh && one.partition_key ? (
          <Button aria-label={`Weight of ${one.partition_key}: ${one.weight}, change it`} onClick={() => weighing.open(one.partition_key)}>
            {one.weight}
          </Button>
        ) : (
          one.weight
        ),
      end: true,
    },
    { name: "Share", cell: (one) => (<>{Math.round(one.share * 100)} %<Bar share={one.share} /></>), wide: true }, // prettier-ignore
    { name: "Oldest", cell: (one) => duration(one.oldest_queued_age_ms), end: true, wide: true },
  ];
  return (
    <Card title="Partitions, served fairly by weight">
      <List<Partition> what="partitions" path={`${path}/partitions`} topics={["jobs", "queues"]} id={(one) => one.partition_key} columns={columns} screen="queues">
        Jobs with a <code>partition_key</code> take turns, so that one tenant cannot starve the rest.
      </List>
      {weighing.isOpen && mayWeigh && <Weigh key={weighing.on} partition={weighing.on} path={path} onClose={weighing.close} />}
    </Card>
  );
}

/** Its weight is read anew: it may be another one's by now. */
function Weigh({ partition, path, onClose }: { partition: string; path: string; onClose: () => void }): JSX.Element | null {
  const of = useAll<Partition>(`${path}/partitions`)?.find((one) => one.partition_key === partition);
  if (!of) return null;
  const save = async (body: object): Promise<string> => (await api.patch(`${path}/partitions/${segment(of.partition_key)}`, body), `${of.partition_key} is weighed anew.`);
  const hint = "while it has work, its part of the queue is this to the sum of all that have";
  return (
    <FormDialog
      title={`Weight of ${of.partition_key}`}
      inputs={[{ name: "weight", label: "Weight", is: "number", value: of.weight, hint, required: true }]}
      verb="Set it"
      cancel="Keep as it is"
      onSend={save}
      onClose={onClose}
    />
  );
}
