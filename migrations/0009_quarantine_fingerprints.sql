-- Quarantine (docs/adr/0014): a fingerprint whose jobs take their workers with them is set aside, with all jobs that bear it.
--
-- A fingerprint is reckoned only where somebody asks: when a lease is lost or a process crashes, and, while the project has a
-- quarantined one, of jobs of that job type as they are enqueued, claimed or swept. Nobody else pays more than one look into a
-- small index. The claim is the gate that lets none through; setting waiting jobs aside beforehand only shows them where they are.
--
-- Whoever sets a job aside holds the quarantine's row by `for key share skip locked`, and a release ends with `for update skip
-- locked` on it: so the row goes only when nobody can still add a job to it, and nobody ever waits for anybody.

-- Nothing has ever written to the table (no release before this one does), so that neither checks nor indexes find a row:
-- squawk-ignore-file constraint-missing-not-valid, require-concurrent-index-creation

alter table tidemill.quarantine
    add column recent_losses timestamptz[] not null default '{}',
    add column is_quarantined boolean not null default false,
    add column verb text,
    add column position uuid,
    add column swept_at timestamptz,
    add column sweep_position jsonb;
alter table tidemill.quarantine
    add constraint quarantine_verbs check (verb in ('release', 'discard')),
    add constraint quarantine_began check (not is_quarantined or quarantined_at is not null),
    add constraint quarantine_released check (verb is distinct from 'release' or not is_quarantined);
create index quarantine_in_force on tidemill.quarantine (project_id, job_type) where is_quarantined;
create index quarantine_listed on tidemill.quarantine (project_id, quarantined_at, fingerprint) where quarantined_at is not null;
create index quarantine_open on tidemill.quarantine (last_loss_at) where verb is not null or (is_quarantined and swept_at is null);
create index quarantine_counting on tidemill.quarantine (last_loss_at) where quarantined_at is null;

-- Job type and payload as canonical JSON (jsonb: keys sorted, numbers as sent: 1 and 1.0 differ).
create function tidemill.fingerprint(job_type text, payload jsonb) returns bytea
language sql immutable parallel safe
return sha256(convert_to(job_type || e'\n' || payload::text, 'UTF8'));

-- The losses that still count, oldest first, at most the largest threshold that a queue may have.
create function tidemill.losses_since(losses timestamptz[], now timestamptz, window_ms bigint) returns timestamptz[]
language sql stable parallel safe
return (
    select coalesce(array_agg(k.at order by k.at), '{}')
    from (select u.at from unnest(losses) as u (at)
          where u.at > now - make_interval(secs => window_ms / 1000.0) order by u.at desc limit 1000) k);

-- Sets aside those of the jobs whose fingerprint is quarantined; their ids. The caller has taken or locked their entries and deletes
-- those of the ids returned. p_attempts, p_fences: what the entries said, by position; null: as the job says. p_phase: only jobs in
-- that phase (null: waiting or moving). Locks: quarantine (key share, skip locked) -> jobs -> unique_holds (by key).
create function tidemill.set_aside(
    p_project_id uuid, p_ids uuid[], p_attempts integer[], p_fences bigint[], p_phase tidemill.job_phase, p_now timestamptz) returns uuid[]
language plpgsql
set plan_cache_mode = force_generic_plan -- planning its statements anew takes longer than they do
as $$
declare
    v_suspects uuid[];
    v_prints bytea[];
    v_ids uuid[];
begin
    select array_agg(j.id order by j.id), array_agg(j.fingerprint order by j.id) into v_suspects, v_prints
    from unnest(p_ids) as g (id)
    cross join lateral (
        select i.id, tidemill.fingerprint(i.job_type, i.payload) as fingerprint from tidemill.jobs i
        where i.id = g.id and exists (
            select 1 from tidemill.quarantine x
            where x.project_id = p_project_id and x.job_type = i.job_type and x.is_quarantined)
        limit 1) j;
    if v_suspects is null then
        return '{}';
    end if;
    with held as materialized (
        select x.fingerprint from tidemill.quarantine x
        where x.project_id = p_project_id and x.fingerprint = any(v_prints) and x.is_quarantined
        for key share skip locked
    ), moved as (
        update tidemill.jobs j
        set phase = 'quarantined', fingerprint = s.fingerprint, final_reason = 'quarantined',
            attempt_count = coalesce(p_attempts[array_position(p_ids, j.id)], j.attempt_count),
            fence = coalesce(p_fences[array_position(p_ids, j.id)], j.fence),
            updated_at = coalesce(p_now, clock_timestamp())
        from rows from (unnest(v_suspects), unnest(v_prints)) as s (id, fingerprint)
        join held h on h.fingerprint = s.fingerprint
        where j.id = s.id and j.id = any(v_suspects) and j.phase in ('waiting', 'moving') and (p_phase is null or j.phase = p_phase)
        returning j.id, j.unique_window
    ), freed as (
        delete from tidemill.unique_holds h
        where h.kind = 'unique' and h.job_id = any(array(
            select u.job_id from tidemill.unique_holds u
            where u.kind = 'unique' and u.job_id = any(array(select m.id from moved m where m.unique_window in ('pending', 'running')))
            order by u.key for update))
    )
    select array_agg(m.id) into v_ids from moved m;
    return coalesce(v_ids, '{}');
end $$;

-- Deletes the entries of jobs that were set aside; nobody else can be at them. One may have stood in front of a lane that waits for what it costs. Locks: entries.
create function tidemill.drop_entries(p_ids uuid[]) returns void
language sql volatile
begin atomic
    with gone as (
        delete from tidemill.job_queue_entries e
        using tidemill.jobs j
        where j.id = any(p_ids) and e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
        returning e.queue_id, e.lane, e.priority
    )
    insert into tidemill.lane_news (queue_id, lane, priority, run_at)
    select distinct g.queue_id, g.lane, g.priority, statement_timestamp() from gone g where g.lane <> 0;
end;

-- Jobs that the transaction has just created are born quarantined where their fingerprint is; their states by position.
create function tidemill.set_aside_born(p_project_id uuid, p_ids uuid[], p_states tidemill.job_status[], p_now timestamptz)
returns tidemill.job_status[]
language plpgsql as $$
declare
    v_aside uuid[] := tidemill.set_aside(p_project_id, p_ids, null, null, null, p_now);
begin
    if v_aside = '{}' then
        return p_states;
    end if;
    perform tidemill.drop_entries(v_aside);
    return array(select case when b.id = any(v_aside) then 'quarantined' else b.state end
                 from unnest(p_ids, p_states) with ordinality as b (id, state, ord) order by b.ord);
end $$;

-- Looks at the next p_limit waiting jobs of the project for one quarantined fingerprint, first those with an entry (queue by queue, in
-- the claim's order), then the pending ones, and sets aside what bears it. Goes on where it stopped; nothing while another is at it.
-- Rows: the jobs set aside with their traits. Locks: quarantine (no key update) -> entries (skip locked) -> jobs -> unique_holds.
create function tidemill.sweep_quarantined(p_project_id uuid, p_fingerprint bytea, p_limit integer, p_now timestamptz)
returns table (job_id uuid, traits smallint)
language plpgsql as $$
#variable_conflict use_column
declare
    v_row tidemill.quarantine;
    v_walked uuid[];
    v_entry tidemill.job_queue_entries;  -- where the last walk over entries stopped
    v_next jsonb;
    v_ids uuid[];
    v_locked uuid[];
    v_attempts integer[];
    v_fences bigint[];
    v_aside uuid[];
    v_is_pending boolean;
begin
    select x.* into v_row from tidemill.quarantine x
    where x.project_id = p_project_id and x.fingerprint = p_fingerprint and x.is_quarantined and x.swept_at is null
    for no key update skip locked;
    if not found then
        return;
    end if;
    v_is_pending := coalesce(v_row.sweep_position ? 'pending', false);
    if v_is_pending then
        v_walked := array(
            select j.id from tidemill.jobs j
            where j.project_id = p_project_id and j.phase = 'waiting' and j.id > (v_row.sweep_position ->> 'pending')::uuid
            order by j.id limit p_limit);
        v_next := jsonb_build_object('pending', v_walked[cardinality(v_walked)]);
    else
        v_entry := jsonb_populate_record(null::tidemill.job_queue_entries, v_row.sweep_position);
        with walked as materialized (
            select q.id as queue_id, e.lane, e.priority, e.run_at, e.job_id, row_number() over () as n
            from (select o.id from tidemill.queues o where o.project_id = p_project_id and o.id >= coalesce(v_entry.queue_id, o.id) order by o.id) q
            cross join lateral (
                select c.lane, c.priority, c.run_at, c.job_id from tidemill.job_queue_entries c
                where c.queue_id = q.id and (c.lane, c.priority, c.run_at, c.job_id) > (
                    case when q.id = v_entry.queue_id then v_entry.lane else -1 end,
                    case when q.id = v_entry.queue_id then v_entry.priority else (-32768)::smallint end,
                    case when q.id = v_entry.queue_id then v_entry.run_at else '-infinity' end,
                    case when q.id = v_entry.queue_id then v_entry.job_id else '00000000-0000-0000-0000-000000000000' end)
                order by c.lane, c.priority, c.run_at, c.job_id limit p_limit) e
            limit p_limit)
        select array_agg(w.job_id), (select to_jsonb(l) - 'n' from walked l order by l.n desc limit 1) into v_walked, v_next from walked w;
    end if;

    v_ids := array(
        select j.id from unnest(v_walked) as g (id)
        cross join lateral (
            select i.id, i.job_type, i.payload from tidemill.jobs i where i.id = g.id and i.job_type = v_row.job_type limit 1) j
        where tidemill.fingerprint(j.job_type, j.payload) = p_fingerprint);
    if v_ids <> '{}' then
        -- locked first and looked at again in set_aside, because an edit may have changed a payload meanwhile
        if v_is_pending then
            v_aside := tidemill.set_aside(p_project_id, v_ids, null, null, 'waiting', p_now);
        else
            select array_agg(c.job_id), array_agg(c.attempt_count), array_agg(c.fence) into v_locked, v_attempts, v_fences
            from (
                select e.job_id, e.attempt_count, e.fence
                from tidemill.jobs j
                join tidemill.job_queue_entries e
                    on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
                where j.id = any(v_ids)
                for update of e skip locked) c;
            v_aside := tidemill.set_aside(p_project_id, v_locked, v_attempts, v_fences, 'moving', p_now);
            perform tidemill.drop_entries(v_aside);
        end if;
    end if;

    update tidemill.quarantine x
    set sweep_position = case when coalesce(cardinality(v_walked), 0) >= p_limit then v_next
                              when not v_is_pending then '{"pending": "00000000-0000-0000-0000-000000000000"}' end,
        swept_at = case when v_is_pending and cardinality(v_walked) < p_limit then coalesce(p_now, clock_timestamp()) end
    where x.project_id = p_project_id and x.fingerprint = p_fingerprint;
    return query select j.id, tidemill.job_traits(j) from tidemill.jobs j where j.id = any(v_aside);
end $$;
