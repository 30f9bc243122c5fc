/** What an organization can be told: its name, and which roles see what jobs carry. For its owners. */

import type { JSX } from "preact";

import { api } from "../api/http.ts";
import { learn } from "../api/session.ts";
import type { Body, Input } from "../lib/forms.ts";
import { useResource } from "../lib/live.ts";
import { FormDialog } from "../ui/form.tsx";

interface Organization {
  id: string;
  name: string;
  payloads_hidden_from: string[];
}

const MAY_BE_HIDDEN = ["viewer", "operator"] as const;

export function OrganizationSettings({ id, onClose }: { id: string; onClose: () => void }): JSX.Element | null {
  const path = `/v1/organizations/${id}`;
  const organization = useResource<Organization>(path, ["overview"]).value;
  if (!organization) return null;
  const hidden = (role: string): Input => ({
    name: role, label: `Hide payloads from ${role}s`, is: "flag", value: organization.payloads_hidden_from.includes(role),
    hint: role === "viewer" ? "and results, log lines and error texts; names, states and times stay" : "they go on acting on jobs unseen",
  }); // prettier-ignore
  const inputs: Input[] = [{ name: "name", label: "Name", value: organization.name, required: true }, ...MAY_BE_HIDDEN.map(hidden)];
  const save = async (body: Body): Promise<string> => {
    const { name, ...roles } = body;
    const before = new Set(organization.payloads_hidden_from);
    const payloads_hidden_from = MAY_BE_HIDDEN.filter((role) => roles[role] ?? before.has(role));
    await api.patch(path, { ...(name === undefined ? {} : { name }), ...(Object.keys(roles).length ? { payloads_hidden_from } : {}) });
    await learn();
    return `${name ?? organization.name} is changed.`;
  };
  return <FormDialog title={`Settings of ${organization.name}`} inputs={inputs} onlyChanged verb="Save" cancel="Keep as it is" onSend={save} onClose={onClose} />;
}

export function NewOrganization({ onClose }: { onClose: () => void }): JSX.Element {
  const inputs: Input[] = [
    { name: "name", label: "Name", required: true },
    { name: "slug", label: "Short name", required: true, hint: "small letters, digits and -, unlike any other's" },
  ];
  const make = async (body: Body): Promise<string> => {
    await api.post("/v1/organizations", body);
    await learn();
    return `${body["name"]} is made, and yours.`;
  };
  return <FormDialog title="New organization" inputs={inputs} verb="Make it" onSend={make} onClose={onClose} />;
}
