/** One ticking clock for all relative times of the page. */

import { useEffect, useState } from "preact/hooks";

const watchers = new Set<(now: number) => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function tick(): void {
  if (!document.hidden) for (const watcher of watchers) watcher(Date.now());
}

/** The time now (ms since 1970), drawn again every second while the tab is seen. */
export function useNow(): number {
  const [now, set] = useState(Date.now);
  useEffect(() => {
    watchers.add(set);
    timer ??= setInterval(tick, 1_000);
    return () => {
      watchers.delete(set);
      if (watchers.size === 0) {
        clearInterval(timer);
        timer = undefined;
      }
    };
  }, []);
  return now;
}
