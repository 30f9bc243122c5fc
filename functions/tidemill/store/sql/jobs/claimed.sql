-- Whole jobs of leases that were just taken at one gated queue. Parameters: queue_id uuid; job_ids uuid[]; lease_tokens uuid[] (of the same places).
-- Rows: the columns of claim.sql, and whether nothing is left there that may go as far as claims know (is_spent), one per lease that is still there, in the
-- order given. Locks: none.
select l.job_id::text, l.lease_token::text, j.job_type::text, q.name::text as queue, j.payload::text, j.schema_version, j.headers::text,
       l.attempt,
       coalesce(j.max_attempts_override,
           case when jsonb_typeof(j.retry_policy -> 'max_attempts') = 'number' then (j.retry_policy ->> 'max_attempts')::integer end,
           p.max_attempts, 5) as max_attempts,
       l.fence, l.lease_expires_at, j.timeout_ms, j.checkpoint::text, j.traceparent, j.tracestate,
       q.id::text, l.priority, l.run_at, 1::bigint as place,
       (select not exists (select 1 from tidemill.queue_lanes o where o.queue_id = %(queue_id)s::uuid and o.is_ready)
               and not exists (select 1 from tidemill.lane_news n where n.queue_id = %(queue_id)s::uuid)
               and not exists (
                   select 1 from tidemill.queue_levels v
                   cross join lateral (
                       select 1 from tidemill.job_queue_entries e
                       where e.queue_id = v.queue_id and e.lane = 0 and e.priority = v.priority and e.run_at <= statement_timestamp() limit 1) d
                   where v.queue_id = %(queue_id)s::uuid)) as is_spent
from unnest(%(job_ids)s::uuid[], %(lease_tokens)s::uuid[]) with ordinality as g (job_id, lease_token, pos)
cross join lateral (select i.* from tidemill.job_leases i where i.job_id = g.job_id and i.lease_token = g.lease_token limit 1) l
cross join lateral (select b.* from tidemill.jobs b where b.id = l.job_id limit 1) j
join tidemill.queues q on q.id = l.queue_id
left join tidemill.retry_policies p on p.id = coalesce(j.retry_policy_id, q.default_retry_policy_id)
order by g.pos
limit 500
