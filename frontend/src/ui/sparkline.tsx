/** A few numbers as a small drawing; a reader hears them in words. */

import type { JSX } from "preact";

export function Sparkline({ values, label }: { values: readonly number[]; label: string }): JSX.Element {
  const top = Math.max(1, ...values);
  const width = 100 / Math.max(1, values.length);
  return (
    <svg class="spark" viewBox="0 0 100 24" width="110" height="24" preserveAspectRatio="none" role="img" aria-label={`${label}: ${values.join(", ")}`}>
      <path d="M0 23.5H100" stroke="var(--line)" stroke-width="1" />
      {values.map((value, index) => (
        <rect key={index} x={index * width + 0.4} width={Math.max(0.6, width - 0.8)} y={24 - Math.max(value ? 2 : 0, (22 * value) / top)} height={Math.max(value ? 2 : 0, (22 * value) / top)} fill="var(--bad)">
          <title>{value}</title>
        </rect>
      ))}
    </svg>
  );
}
