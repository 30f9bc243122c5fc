/** What a job wrote, live: the end is in sight until one scrolls up. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import type { LogLine } from "../api/jobs.ts";
import { HIDDEN } from "../lib/hidden.ts";
import { plural } from "../lib/format.ts";
import { useLines } from "../lib/lines.ts";
import { setQuery, usePlace } from "../lib/route.ts";
import { Card } from "../ui/basic.tsx";
import { Wrong } from "../ui/states.tsx";

const NEAR_PX = 30;

export function Logs({ path, isLive, isHidden }: { path: string; isLive: boolean; isHidden: boolean }): JSX.Element {
  const level = usePlace().query.get("level") ?? "";
  const log = useLines(`${path}/logs`, level, isLive);
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useLayoutEffect(() => {
    const here = box.current;
    if (here && follows.current) here.scrollTop = here.scrollHeight;
  }, [log.blocks]);
  const count = log.blocks.reduce((sum, block) => sum + block.length, 0);
  return (
    <Card
      title="Logs"
      aside={
        <div class="row">
          {count > 0 && <span class="dim">{plural(count, "line")}</span>}
          <select aria-label="Least level" value={level} onChange={(event) => setQuery({ level: event.currentTarget.value }, true)}>
            {["", "info", "warning", "error"].map((one) => (
              <option key={one} value={one}>
                {one || "every level"}
              </option>
            ))}
          </select>
        </div>
      }
    >
      {isHidden && count > 0 && <p class="dim">What the lines say is {HIDDEN}.</p>}
      {log.error && <Wrong error={log.error} onRetry={log.reload} />}
      {log.loading ? (
        <div class="loading" role="status" aria-label="loading" />
      ) : count > 0 ? (
        <div
          class="log" tabIndex={0} role="region" aria-label="logs" ref={box}
          onScroll={({ currentTarget: it }) => (follows.current = it.scrollHeight - it.scrollTop - it.clientHeight < NEAR_PX)}
        >
          {log.blocks.map((block) => (
            <Block key={block[0]?.id} of={block} />
          ))}
        </div>
      ) : (
        !log.error && <p class="dim">It has written nothing{level ? " of this level" : ""}.</p>
      )}
    </Card>
  );
}

/** Some lines as one text: the browser lays it out when it comes into sight. */
function Block({ of }: { of: readonly LogLine[] }): JSX.Element {
  return <pre style={{ containIntrinsicSize: `auto ${of.length * 18}px` }}>{of.map((line) => `${line.ts.slice(11, 23)} ${line.level.padEnd(7)} ${line.message ?? ""}\n`).join("")}</pre>;
}
