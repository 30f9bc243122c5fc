/** What a role may not see comes as null. This tells that from a value that is not there. */

import { may } from "../api/session.ts";
import { useResource } from "./live.ts";

export const HIDDEN = "hidden for your role";

/** Are payloads, results, log lines and error texts kept from who looks? undefined: not known yet. Nothing can be hidden from an admin. */
export function useHidden(): boolean | undefined {
  const seesAll = may("admin");
  const me = useResource<{ sees_payloads: boolean }>(seesAll ? null : "/v1/me", []);
  return seesAll ? false : me.value && !me.value.sees_payloads;
}
