/** Projects: which there are, what the open one can be told, and whom it tells of its errors. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api } from "../api/http.ts";
import { learn, may, type Project, useMe } from "../api/session.ts";
import type { Body, Input } from "../lib/forms.ts";
import { forgetAll } from "../lib/live.ts";
import { useOver } from "../lib/over.ts";
import { fragment, go } from "../lib/route.ts";
import { Button, Card, Id, Time } from "../ui/basic.tsx";
import { Confirm, type Deed } from "../ui/dialog.tsx";
import { FormDialog } from "../ui/form.tsx";
import { List } from "../ui/list.tsx";
import type { Column } from "../ui/table.tsx";
import { ErrorWebhook } from "./webhook.tsx";

type Listed = Project & { created_at: string };

const COLUMNS: readonly Column<Listed>[] = [
  { name: "Name", cell: (project) => <a href={fragment(project.id, [])}>{project.name}</a> },
  { name: "Your role", cell: (project) => project.role ?? "", wide: true },
  { name: "Made", cell: (project) => <Time at={project.created_at} />, wide: true },
  { name: "Id", cell: (project) => <Id id={project.id} /> },
];

export function Projects(): JSX.Element {
  const me = useMe();
  const owned = me?.organizations.filter((organization) => organization.role === "owner") ?? [];
  const making = useOver("new");
  const open = me?.projects.find((project) => project.id === api.project);
  return (
    <>
      <header>
        <h1>Projects</h1>
        {owned.length > 0 && (
          <Button kind="main" onClick={() => making.open()}>
            New project
          </Button>
        )}
      </header>
      {open && <ThisOne of={open} />}
      <ErrorWebhook />
      <List<Listed> what="projects" path="/v1/projects" topics={["overview"]} id={(project) => project.id} columns={COLUMNS} href={(project) => fragment(project.id, [])} screen="projects" />
      {making.isOpen && owned.length > 0 && <NewProject organizations={owned} onClose={making.close} />}
    </>
  );
}

/** The open project: its name, and its end. */
function ThisOne({ of }: { of: Project }): JSX.Element {
  const renaming = useOver("rename");
  const [deed, setDeed] = useState<Deed>();
  const path = `/v1/projects/${of.id}`;
  const rename = async (body: Body): Promise<string> => (await api.patch(path, body), await learn(), `It is called ${body["name"]} now.`);
  const remove = (): void =>
    setDeed({
      title: `Delete the project ${of.name}`,
      says: "Its queues, policies, limits, schedules and keys go with it: whoever uses such a key is refused. It must hold no job, ended ones included. This cannot be undone.",
      verb: "Delete it",
      danger: true,
      run: async () => {
        await api.delete(path);
        forgetAll();
        await learn();
        go("#/");
        return { says: `${of.name} is deleted.` };
      },
    });
  return (
    <Card title={`Open now: ${of.name}`}>
      <div class="row">
        <Id id={of.id} long />
        {may("admin") && <Button onClick={() => renaming.open()}>Rename</Button>}
        {may("owner") && (
          <Button kind="danger" onClick={remove}>
            Delete
          </Button>
        )}
      </div>
      {renaming.isOpen && may("admin") && <FormDialog title={`Rename ${of.name}`} inputs={[{ name: "name", label: "Name", value: of.name, required: true }]} onlyChanged verb="Rename it" onSend={rename} onClose={renaming.close} />}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </Card>
  );
} // prettier-ignore

function NewProject({ organizations, onClose }: { organizations: readonly { id: string; name: string }[]; onClose: () => void }): JSX.Element {
  const inputs: Input[] = [
    { name: "name", label: "Name", required: true },
    { name: "org_id", label: "Organization", is: "choice", value: organizations[0]?.id, choices: organizations.map((one) => [one.id, one.name]) },
  ];
  const make = async (body: Body): Promise<string> => {
    const made = await api.post<Project>("/v1/projects", body);
    await learn();
    go(fragment(made.id, ["keys"]));
    return `${made.name} is made, with a queue called default. It wants a key next.`;
  };
  return <FormDialog title="New project" inputs={inputs} verb="Make it" onSend={make} onClose={onClose} />;
}
