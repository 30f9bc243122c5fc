-- Parents, children and batches of new jobs. enqueue_results calls these only where a job names a parent or a batch.

-- Where the sweep over open edges goes on. One row per sweep.
create table tidemill.sweep_positions (
    name text primary key check (length(name) <= 100),
    after uuid not null
);

-- Marks jobs as parents wherever their row is at the moment, so that whoever ends them looks for children, and says how each stands:
-- live, completed, failed (cancelled, dead, quarantined), or no row if the project has no such job.
-- A parent that is ending right now is waited for, then read as ended; until the transaction ends none of them can end.
-- Locks entries and leases (key share: only their deletion waits) -> jobs (share), each in id order; where a parent had no mark yet, its
-- update first. A parent that moved meanwhile makes it start again with no lock held, so that it never waits against that order.
create function tidemill.mark_parents(p_project_id uuid, p_parents uuid[])
returns table (parent uuid, standing text)
language plpgsql as $$
#variable_conflict use_column
declare
    v_met uuid[];
    v_held uuid[];
begin
    for v_try in 1..10 loop
        begin
            with fresh as materialized (
                select e.queue_id, e.lane, e.priority, e.run_at, e.job_id
                from tidemill.jobs j
                join tidemill.job_queue_entries e on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
                where j.id = any(p_parents) and j.project_id = p_project_id and e.traits & 64 = 0
                order by e.job_id for no key update of e
            )
            update tidemill.job_queue_entries e set traits = e.traits | 64
            from fresh f
            where e.queue_id = f.queue_id and e.lane = f.lane and e.priority = f.priority and e.run_at = f.run_at and e.job_id = f.job_id;
            with met as materialized (
                select e.job_id
                from tidemill.jobs j
                join tidemill.job_queue_entries e on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
                where j.id = any(p_parents) and j.project_id = p_project_id and e.traits & 64 <> 0
                order by e.job_id for key share of e
            )
            select array_agg(m.job_id) into v_met from met m;

            with fresh as materialized (
                select l.job_id
                from tidemill.jobs j join tidemill.job_leases l on l.job_id = j.id
                where j.id = any(p_parents) and j.project_id = p_project_id and l.traits & 64 = 0
                order by l.job_id for no key update of l
            )
            update tidemill.job_leases l set traits = l.traits | 64 from fresh f where l.job_id = f.job_id;
            with met as materialized (
                select l.job_id
                from tidemill.jobs j join tidemill.job_leases l on l.job_id = j.id
                where j.id = any(p_parents) and j.project_id = p_project_id and l.traits & 64 <> 0
                order by l.job_id for key share of l
            )
            select array_agg(m.job_id) into v_held from met m;
            v_met := coalesce(v_met, '{}') || coalesce(v_held, '{}');

            with fresh as materialized (
                select j.id from tidemill.jobs j
                where j.id = any(p_parents) and j.project_id = p_project_id and not j.has_children order by j.id for no key update
            )
            update tidemill.jobs j set has_children = true from fresh f where j.id = f.id;
            perform 1 from tidemill.jobs j where j.id = any(p_parents) and j.project_id = p_project_id order by j.id for share;

            if exists (
                select 1 from tidemill.job_states s
                where s.id = any(p_parents) and s.project_id = p_project_id
                  and s.status in ('scheduled', 'queued', 'claimed', 'running') and not (s.id = any(v_met)))
            then
                raise exception 'a parent moved meanwhile' using errcode = 'TM001';
            end if;
            return query
            select s.id, case when s.status = 'completed' then 'completed'
                              when s.status in ('cancelled', 'dead_letter', 'quarantined') then 'failed' else 'live' end
            from tidemill.job_states s
            where s.id = any(p_parents) and s.project_id = p_project_id;
            return;
        exception when sqlstate 'TM001' then
            null;  -- undone: look again
        end;
    end loop;
    raise exception 'the parents kept moving' using errcode = 'serialization_failure';
end $$;

-- What is wrong with each job's batch_id ("batch_id: text"), by position. p_lock: the batches stay open until the transaction ends;
-- they are locked in id order. A job that another one answers for joins nothing.
create function tidemill.batch_faults(p_project_id uuid, p_jobs jsonb, p_twins uuid[], p_lock boolean) returns text[]
language plpgsql as $$
#variable_conflict use_column
declare
    v_ids uuid[] := array(
        select distinct (e.job ->> 'batch_id')::uuid from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        where e.job ->> 'batch_id' is not null and p_twins[e.ord] is null);
begin
    if v_ids = '{}' then
        return null;
    end if;
    if p_lock then
        perform 1 from tidemill.job_batches b where b.project_id = p_project_id and b.id = any(v_ids) order by b.id for no key update;
    end if;
    return array(
        select case when e.job ->> 'batch_id' is null or p_twins[e.ord] is not null or b.status = 'open' then null
                    when b.id is null then format('batch_id: no batch %s in this project', lower(e.job ->> 'batch_id'))
                    else format('batch_id: batch %s is %s; only an open batch takes jobs', b.id, b.status) end
        from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        left join tidemill.job_batches b on b.id = (e.job ->> 'batch_id')::uuid and b.project_id = p_project_id
        order by e.ord);
end $$;

-- Reads depends_on and batch_id of the given jobs. By position: how many parents each waits for, its fate if one has failed already
-- (cancel | hold), what is wrong with it ("field: text"); then the edges (position of the child, parent, settled already).
-- p_twins: jobs that answer instead of new ones; their families are not asked for again. p_refused: positions (from 0) refused already;
-- whoever depends on one is refused as well. In-call references are resolved and ordered by Kahn's algorithm (1962); what cannot be
-- ordered stands in a circle, or behind one. Parents are locked before batches, as by those who end jobs.
create function tidemill.take_family(p_project_id uuid, p_jobs jsonb, p_ids uuid[], p_twins uuid[], p_refused integer[],
    out pending integer[], out fates text[], out faults text[],
    out edge_children integer[], out edge_parents uuid[], out edge_settled boolean[])
language plpgsql as $$
#variable_conflict use_variable
declare
    v_n integer := cardinality(p_ids);
    v_row record;
    v_refs jsonb;
    v_again text[];
    v_children integer[];   -- by edge: child's position
    v_parents uuid[];       -- by edge: the parent's id
    v_inside integer[];     -- by edge: the parent's position in this call, or null
    v_by_child integer[];   -- edges in the order of their children's turns
    v_out integer[];        -- edges with a parent of this call, by that parent
    v_first integer[];      -- by position: its first place in v_out
    v_open integer[];       -- by position: parents in this call that are not ordered yet
    v_outside uuid[];       -- parents that exist already
    v_standing jsonb;       -- how they stand, by id
    v_ready integer[];
    v_done integer := 0;
    v_at integer;
    v_edge integer;
    v_child integer;
    v_how text;
    v_rule text;
begin
    pending := array_fill(0, array[v_n]);
    fates := array_fill(null::text, array[v_n]);
    edge_children := '{}'; edge_parents := '{}'; edge_settled := '{}';
    faults := coalesce(tidemill.batch_faults(p_project_id, p_jobs, p_twins, false), array_fill(null::text, array[v_n]));

    select coalesce(jsonb_object_agg(r.ref, r.pos), '{}') into v_refs
    from (select e.job ->> 'ref' as ref, min(e.ord) as pos from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
          where e.job ->> 'ref' is not null group by 1) r;
    for v_row in
        select e.ord::integer as pos, jsonb_typeof(e.job -> 'depends_on') as kind, e.job ->> 'ref' as ref,
               case when jsonb_typeof(e.job -> 'depends_on') = 'array' then jsonb_array_length(e.job -> 'depends_on') end as n
        from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        where (coalesce(jsonb_typeof(e.job -> 'depends_on'), 'null') <> 'null' and p_twins[e.ord] is null)
           or (e.job ->> 'ref' is not null and v_refs ->> (e.job ->> 'ref') <> e.ord::text)
    loop
        if v_row.kind <> 'array' and v_row.kind <> 'null' then
            faults[v_row.pos] := 'depends_on: must be a list of job ids and {"ref": "…"} objects';
        elsif v_row.n > 1000 then
            faults[v_row.pos] := format('depends_on: %s parents; the limit is 1000', v_row.n);
        elsif (v_refs ->> v_row.ref)::integer <> v_row.pos then
            faults[v_row.pos] := format('ref: %L is the ref of another job of this call: give each its own', left(v_row.ref, 200));
        end if;
    end loop;

    -- Edges, each once: two refs, or a ref and an id, may stand for one job.
    with given as materialized (
        select e.ord::integer as pos, case jsonb_typeof(d.parent) when 'string' then lower(d.parent #>> '{}') end as id,
               (v_refs ->> (case jsonb_typeof(d.parent) when 'object' then d.parent ->> 'ref' end))::integer as at, d.parent
        from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        cross join lateral jsonb_array_elements(case jsonb_typeof(e.job -> 'depends_on') when 'array' then e.job -> 'depends_on' else '[]' end) as d (parent)
        where faults[e.ord] is null and p_twins[e.ord] is null
    ), meant as (
        select g.pos, g.parent,
               case when g.at is not null then coalesce(p_twins[g.at], p_ids[g.at])
                    when g.id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then g.id::uuid end as id,
               case when p_twins[g.at] is null then g.at else array_position(p_ids, p_twins[g.at]) end as inside
        from given g
    ), strange as (
        select distinct on (m.pos) m.pos, case when jsonb_typeof(m.parent) = 'object' and m.parent ->> 'ref' is not null
            then format('depends_on: no job of this call has the ref %L', left(m.parent ->> 'ref', 200))
            else 'depends_on: each parent is a job id or {"ref": "…"}' end as fault
        from meant m where m.id is null order by m.pos
    ), edges as (
        select m.pos, m.id, min(m.inside) as inside from meant m where m.id is not null group by m.pos, m.id order by m.pos, m.id
    )
    select array_agg(e.pos), array_agg(e.id), array_agg(e.inside),
           (select array_agg(coalesce(faults[p], s.fault) order by p) from generate_series(1, v_n) as p left join strange s on s.pos = p)
    into v_children, v_parents, v_inside, faults
    from edges e;

    if cardinality(v_children) > 10000 then
        faults := array(select coalesce(faults[p], format('depends_on: %s parents in one call; the limit is 10000', cardinality(v_children)))
                        from generate_series(1, v_n) as p order by p);
        return;
    end if;

    if v_children is not null then
        -- Strangers are found before anything is marked.
        for v_row in
            select v_children[i] as pos, min(v_parents[i]::text) as parent
            from generate_subscripts(v_children, 1) as i
            where v_inside[i] is null and not exists (select 1 from tidemill.jobs j where j.id = v_parents[i] and j.project_id = p_project_id)
            group by 1
        loop
            faults[v_row.pos] := coalesce(faults[v_row.pos], format('depends_on: no job %s in this project', v_row.parent));
        end loop;

        -- Kahn: a position is ready once all its parents of this call are done.
        select array_agg(coalesce(c.n, 0) order by p) into v_open
        from generate_series(1, v_n) as p left join (
            select v_children[i] as pos, count(*)::integer as n from generate_subscripts(v_children, 1) as i where v_inside[i] is not null group by 1) c on c.pos = p;
        v_out := array(select i from generate_subscripts(v_children, 1) as i where v_inside[i] is not null order by v_inside[i], i);
        select array_agg(coalesce(f.first, 0) order by p) into v_first
        from generate_series(1, v_n) as p left join (
            select v_inside[v_out[k]] as pos, min(k)::integer as first from generate_subscripts(v_out, 1) as k group by 1) f on f.pos = p;
        v_ready := array(select p from generate_series(1, v_n) as p where v_open[p] = 0 order by p);
        while v_done < cardinality(v_ready) loop
            v_done := v_done + 1;
            v_at := v_ready[v_done];
            v_edge := v_first[v_at];
            while v_edge > 0 and v_edge <= cardinality(v_out) and v_inside[v_out[v_edge]] = v_at loop
                v_child := v_children[v_out[v_edge]];
                v_open[v_child] := v_open[v_child] - 1;
                if v_open[v_child] = 0 then
                    v_ready := v_ready || v_child;
                end if;
                v_edge := v_edge + 1;
            end loop;
        end loop;
        for v_at in 1..v_n loop
            if v_open[v_at] > 0 then
                faults[v_at] := coalesce(faults[v_at], 'depends_on: the jobs depend on each other in a circle');
            end if;
        end loop;
        v_by_child := array(
            select i from unnest(v_ready) with ordinality as k (pos, ord) join generate_subscripts(v_children, 1) as i on v_children[i] = k.pos
            order by k.ord, i);

        -- A refusal reaches all that depend on the refused, in their order.
        foreach v_edge in array v_by_child loop
            v_at := v_inside[v_edge];
            if v_at is not null and (faults[v_at] is not null or v_at - 1 = any(p_refused)) then
                faults[v_children[v_edge]] := coalesce(faults[v_children[v_edge]], format('depends_on: its parent %L is refused', left(p_jobs -> (v_at - 1) ->> 'ref', 200)));
            end if;
        end loop;

        v_outside := array(
            select distinct v_parents[i] from generate_subscripts(v_children, 1) as i
            where v_inside[i] is null and faults[v_children[i]] is null and not (v_children[i] - 1 = any(p_refused)));
        if v_outside <> '{}' then
            select jsonb_object_agg(m.parent::text, m.standing) into v_standing from tidemill.mark_parents(p_project_id, v_outside) as m;
        end if;
    end if;
    v_again := tidemill.batch_faults(p_project_id, p_jobs, p_twins, true);
    if array_remove(v_again, null) <> '{}' then
        faults := array(select coalesce(faults[p], v_again[p]) from generate_series(1, v_n) as p order by p);
    end if;
    if v_children is null then
        return;
    end if;

    -- In that order, what each child has to expect; a parent born cancelled has failed.
    foreach v_edge in array v_by_child loop
        v_child := v_children[v_edge];
        v_at := v_inside[v_edge];
        if faults[v_child] is not null or v_child - 1 = any(p_refused) then
            continue;
        end if;
        if v_at is not null and (faults[v_at] is not null or v_at - 1 = any(p_refused)) then
            faults[v_child] := format('depends_on: its parent %L is refused', left(p_jobs -> (v_at - 1) ->> 'ref', 200));
            continue;
        end if;
        v_how := case when v_at is null then v_standing ->> v_parents[v_edge]::text
                      when fates[v_at] = 'cancel' then 'failed' else 'live' end;
        if v_how is null then  -- deleted since it was looked for
            faults[v_child] := format('depends_on: no job %s in this project', v_parents[v_edge]);
            continue;
        end if;
        v_rule := coalesce(p_jobs -> (v_child - 1) ->> 'on_parent_failure', 'cancel');
        if v_how = 'failed' and v_rule <> 'run' and coalesce(fates[v_child], '') <> 'cancel' then
            fates[v_child] := v_rule;
        end if;
        if v_how = 'live' then
            pending[v_child] := pending[v_child] + 1;
        end if;
        edge_children := edge_children || v_child;
        edge_parents := edge_parents || v_parents[v_edge];
        edge_settled := edge_settled || (v_how <> 'live');
    end loop;
    for v_at in 1..v_n loop
        if fates[v_at] = 'cancel' then
            pending[v_at] := 0;
        end if;
    end loop;
end $$;

-- Writes what take_family found, for the jobs that were really created: edges, marks on parents of the same call, batch totals, freed keys.
create function tidemill.join_family(p_children integer[], p_parents uuid[], p_settled boolean[], p_ids uuid[], p_now timestamptz) returns void
language plpgsql as $$
begin
    insert into tidemill.job_dependencies (job_id, depends_on_job_id, settled_at)
    select p_ids[p_children[i]], p_parents[i], case when p_settled[i] or j.phase = 'cancelled' then p_now end
    from generate_subscripts(p_children, 1) as i
    join tidemill.jobs j on j.id = p_ids[p_children[i]]
    on conflict do nothing;

    update tidemill.jobs j set has_children = true where j.id = any(p_ids) and j.id = any(p_parents) and not j.has_children;
    update tidemill.job_queue_entries e set traits = e.traits | 64
    from tidemill.jobs j
    where j.id = any(p_ids) and j.has_children
      and e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id;

    delete from tidemill.unique_holds h using tidemill.jobs j
    where j.id = any(p_ids) and j.phase = 'cancelled' and h.job_id = j.id and h.kind = 'unique' and h.expires_at is null;

    update tidemill.job_batches b
    set total_jobs = b.total_jobs + m.born, cancelled_jobs = b.cancelled_jobs + m.cancelled, updated_at = p_now
    from (select j.batch_id, count(*) as born, count(*) filter (where j.phase = 'cancelled') as cancelled
          from tidemill.jobs j where j.id = any(p_ids) and j.batch_id is not null group by j.batch_id) m
    where b.id = m.batch_id;
end $$;
