-- Walks members of a batch in id order and finds those in motion that nobody has asked to stop. Parameters: batch_id uuid;
--   after uuid (the nil UUID to begin); walk, limit integer: members looked at, and found. Rows: one: ids text[]; the member after
--   which to go on, null at the end.
with walked as materialized (
    select j.id, j.phase from tidemill.jobs j
    where j.batch_id = %(batch_id)s::uuid and j.id > %(after)s::uuid
    order by j.id limit %(walk)s::integer
), found as materialized (
    select s.id
    from walked w join tidemill.job_states s on s.id = w.id
    where w.phase in ('waiting', 'moving', 'quarantined') and s.cancel_requested_at is null
      and s.status in ('pending', 'scheduled', 'queued', 'claimed', 'running', 'quarantined')
    order by s.id
    limit %(limit)s::integer
)
select array(select f.id::text from found f order by f.id),
       case when (select count(*) from found) >= %(limit)s::integer then (select f.id::text from found f order by f.id desc limit 1)
            when (select count(*) from walked) >= %(walk)s::integer then (select w.id::text from walked w order by w.id desc limit 1) end
