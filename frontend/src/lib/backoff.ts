/** The waits of a retry policy, as the API reckons them (without the jitter, which takes up to half of each away). */

export interface Backoff {
  strategy: string;
  base_delay_ms: number;
  multiplier: number;
  max_delay_ms: number;
  max_attempts: number;
}

/** The wait after each failed attempt that another one follows, in ms. `most`: how many to reckon. */
export function waitsOf(policy: Backoff, most: number): number[] {
  const { strategy, base_delay_ms: base, multiplier, max_delay_ms: cap } = policy;
  const wait = (made: number): number => (strategy === "fixed" ? base : strategy === "linear" ? base * made : base * multiplier ** (made - 1));
  return Array.from({ length: Math.max(0, Math.min(most, policy.max_attempts - 1)) }, (_, index) => Math.trunc(Math.min(cap, wait(index + 1))));
}
