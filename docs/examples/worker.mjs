// A complete tidemill worker over HTTPS: Node >= 18, no dependencies. The rules it keeps are in ../worker-protocol.md.
//   TIDEMILL_URL=https://jobs.example.com TIDEMILL_API_KEY=tm_… node worker.mjs [queue …]

// Yours: job type -> function(job, signal). What it returns is the result; what it throws fails the attempt, which the queue
// retries unless error.retryable is false. `signal` aborts when the job is cancelled, out of time, lost or to be given back.
const handlers = {
  "numbers.sum": ({ payload }) => ({ sum: payload.numbers.reduce((a, b) => a + b, 0) }),
  "text.reverse": ({ payload }) => [...payload.text].reverse().join(""),
  "wait": ({ payload }, signal) => pause(payload.ms, signal),
};
const { TIDEMILL_URL: url, TIDEMILL_API_KEY: key, CONCURRENCY = 8, LEASE_MS = 60_000, STOP_MS = 30_000 } = process.env;
const queues = process.argv.length > 2 ? process.argv.slice(2) : ["default"];
const wanted = { queues, job_types: Object.keys(handlers), lease_ms: Number(LEASE_MS) };
const running = new Map(); // lease token -> { job, abort }
const outbox = []; // acks that the API has not confirmed yet
let worker, stopping = false, quiet = false, claimsNoMore = false;
const log = (event, more = {}) => console.error(JSON.stringify({ at: new Date().toISOString(), event, ...more }));
const naps = new Set(), ring = () => naps.forEach((end) => end());
const nap = (ms) => new Promise((done) => { // ends when the time is over or the bell rings
  const end = () => { clearTimeout(timer); naps.delete(end); done(); }, timer = setTimeout(end, ms);
  naps.add(end);
});
const pause = (ms, signal) => new Promise((done, fail) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); fail(new Error(signal.reason)); });
});

async function send(method, path, body) {
  const answer = await fetch(url + path, {
    method, body: body && JSON.stringify(body), signal: AbortSignal.timeout(10_000),
    headers: { authorization: `Bearer ${key}`, ...(body && { "content-type": "application/json" }) },
  });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({})); // application/problem+json, or a gateway's own words
  const retryAfterMs = 1000 * (Number(answer.headers.get("retry-after")) || 0);
  throw Object.assign(new Error(problem.detail ?? `HTTP ${answer.status}`), { status: answer.status, code: problem.code, retryAfterMs });
}

// Exponential back-off with full jitter; Retry-After is waited out. A 4xx but 429 says that the request is wrong: no repeat.
async function insist(call, until = () => false) {
  for (let failures = 1; ; failures++) {
    try { return await call(); } catch (error) {
      if (until()) return {};
      if (error.status < 500 && error.status !== 429) throw error;
      log("api_unavailable", { reason: error.code ?? error.name, failures });
      await pause((error.retryAfterMs ?? 0) + Math.random() * Math.min(5_000, 100 * 2 ** failures));
    }
  }
}

async function run(job) {
  const abort = new AbortController(), entry = { job, abort };
  running.set(job.lease_token, entry);
  const timer = job.timeout_ms && setTimeout(() => abort.abort("out of time"), job.timeout_ms);
  try {
    settle(entry, { outcome: "complete", result: (await handlers[job.job_type](job, abort.signal)) ?? null });
  } catch (error) {
    const told = { class: error?.name ?? "Error", message: String(error?.message ?? error), stack: error?.stack };
    const failed = { outcome: "fail", error: told, retryable: error?.retryable ?? true };
    settle(entry, abort.signal.reason === "cancelled" ? { outcome: "cancelled" } : failed);
  }
  clearTimeout(timer);
}
function settle({ job }, ack) {
  if (!running.delete(job.lease_token)) return; // lost or given back: no longer ours to speak of
  outbox.push({ job_id: job.id, lease_token: job.lease_token, ...ack });
  ring();
}

async function claimLoop() {
  while (!stopping) {
    const free = CONCURRENCY - running.size;
    if (quiet || free < 1) { await nap(1_000); continue; }
    const ask = { ...wanted, worker_id: worker.worker_id, limit: free, wait_ms: 2_000 };
    const { jobs } = await insist(() => send("POST", "/v1/claims", ask), () => stopping); // a wrong key or request ends it all
    for (const job of jobs ?? []) {
      if (stopping) outbox.push({ job_id: job.id, lease_token: job.lease_token, outcome: "release" }); // came too late
      else run(job);
    }
  }
}

async function beatLoop() {
  for (let due = 0; !claimsNoMore || running.size > 0 || outbox.length > 0; ) {
    if (outbox.length === 0 && Date.now() < due) { await nap(due - Date.now()); continue; }
    const acks = outbox.slice(0, 100), entries = [...running.values()];
    const leases = entries.map(({ job }) => ({ job_id: job.id, lease_token: job.lease_token }));
    const heartbeat = { leases, active_job_count: leases.length, status: stopping ? "draining" : quiet ? "quiet" : "running" };
    const answer = await insist(() => send("POST", "/v1/exchange", { worker_id: worker.worker_id, heartbeat, acks }));
    due = Date.now() + worker.heartbeat_interval_ms;
    outbox.splice(0, acks.length); // not before the answer is here: until then they may have to be sent again as they were
    answer.acks.filter((result) => result.status !== "ok").forEach((result) => log("ack_refused", result));
    const { command, cancel, lost } = answer.heartbeat;
    for (const { job, abort } of entries) {
      if (cancel.includes(job.id)) abort.abort("cancelled");
      if (lost.includes(job.id) && running.delete(job.lease_token)) abort.abort("lease lost");
    }
    if (command === "quiet" || command === "resume") quiet = command === "quiet";
    if (!stopping && (command === "terminate" || command === "restart")) stop(command);
  }
}

const giveBack = (entry) => { settle(entry, { outcome: "release" }); entry.abort.abort("given back"); }; // costs no attempt
function stop(why) {
  if (stopping) process.exit(1); // asked twice: leave at once; the leases run out by themselves
  stopping = true;
  log("stopping", { why, running: running.size });
  ring();
  setTimeout(() => [...running.values()].forEach(giveBack), STOP_MS).unref();
  setTimeout(() => process.exit(1), Number(STOP_MS) + 10_000).unref(); // the API is away
}

const me = { ...wanted, name: "example", pid: process.pid, max_concurrency: Number(CONCURRENCY) };
worker = await insist(() => send("POST", "/v1/workers", me));
for (const name of ["SIGTERM", "SIGINT"]) process.on(name, () => stop(name));
log("started", { worker_id: worker.worker_id, queues });
await Promise.all([claimLoop().finally(() => { claimsNoMore = true; ring(); }), beatLoop()]);
await send("DELETE", `/v1/workers/${worker.worker_id}`).catch(() => {}); // its row is pruned some day anyway
process.exit(0);
