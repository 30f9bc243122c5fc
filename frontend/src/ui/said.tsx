/** A text of the API's as people read it: instants relative, jobs as links, all else as the text that it is. */

import type { JSX } from "preact";

import { shortId } from "../lib/format.ts";
import { to } from "../lib/route.ts";
import { partsOf } from "../lib/said.ts";
import { Time } from "./basic.tsx";

/** `isOfJobs`: the ids in it are those of jobs. */
export function Said({ text, isOfJobs = false }: { text: string; isOfJobs?: boolean }): JSX.Element {
  return (
    <>
      {partsOf(text).map(({ is, text: part }, index) =>
        is === "instant" ? (
          <Time key={index} at={part} />
        ) : is === "id" && isOfJobs ? (
          <a key={index} href={to("jobs", part)} title={part} class="mono">
            {shortId(part)}
          </a>
        ) : (
          part
        ),
      )}
    </>
  );
}
