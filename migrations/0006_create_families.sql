-- Parents, children and batches of new jobs. enqueue_results calls these only where a job names a parent or a batch.

-- Marks jobs as parents wherever their row is at the moment, so that whoever ends them looks for children, and says how each stands:
-- live, completed, failed (cancelled, dead, quarantined), or no row if the project has no such job.
-- Locks entry -> lease -> job of each. A parent that is ending right now is waited for, then read as ended.
create function tidemill.mark_parents(p_project_id uuid, p_parents uuid[])
returns table (parent uuid, standing text)
language plpgsql as $$
#variable_conflict use_column
declare
    v_marked uuid[];
    v_seen uuid[];
begin
    for v_try in 1..10 loop
        v_seen := '{}';
        with marked as (
            update tidemill.job_queue_entries e set traits = e.traits | 64
            from tidemill.jobs j
            where j.id = any(p_parents) and j.project_id = p_project_id
              and e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
            returning e.job_id)
        select array_agg(m.job_id) into v_marked from marked m;
        v_seen := v_seen || v_marked;
        with marked as (
            update tidemill.job_leases l set traits = l.traits | 64
            from tidemill.jobs j
            where j.id = any(p_parents) and j.project_id = p_project_id and l.job_id = j.id
            returning l.job_id)
        select array_agg(m.job_id) into v_marked from marked m;
        v_seen := v_seen || v_marked;
        update tidemill.jobs j set has_children = true
        where j.id in (select i.id from tidemill.jobs i where i.id = any(p_parents) and i.project_id = p_project_id order by i.id for no key update);
        if not exists (
            select 1 from tidemill.job_states s
            where s.id = any(p_parents) and s.project_id = p_project_id
              and s.status in ('scheduled', 'queued', 'claimed', 'running') and not (s.id = any(coalesce(v_seen, '{}'))))
        then
            return query
            select s.id, case when s.status = 'completed' then 'completed'
                              when s.status in ('cancelled', 'dead_letter', 'quarantined') then 'failed' else 'live' end
            from tidemill.job_states s
            where s.id = any(p_parents) and s.project_id = p_project_id;
            return;
        end if;
    end loop;
    raise exception 'the parents kept moving' using errcode = 'serialization_failure';
end $$;

-- Reads depends_on and batch_id of the given jobs. By position: how many parents each waits for, its fate if one has failed already
-- (cancel | hold), what is wrong with it ("field: text"); then the edges (position of the child, parent, settled already).
-- In-call references are resolved and ordered by Kahn's algorithm (1962); what cannot be ordered stands in a cycle.
create function tidemill.take_family(p_project_id uuid, p_jobs jsonb, p_ids uuid[], p_twins uuid[],
    out pending integer[], out fates text[], out faults text[],
    out edge_children integer[], out edge_parents uuid[], out edge_settled boolean[])
language plpgsql as $$
#variable_conflict use_variable
declare
    v_n integer := cardinality(p_ids);
    v_row record;
    v_refs jsonb;
    v_children integer[] := '{}';   -- by edge: child's position
    v_given uuid[] := '{}';         -- by edge: the parent's id
    v_inside integer[] := '{}';     -- by edge: the parent's position in this call, or null
    v_open integer[];               -- by position: parents in this call that are not ordered yet
    v_first integer[];              -- by position: its first edge as a parent, in v_out
    v_out integer[];
    v_next integer[];
    v_standing jsonb;
    v_ready integer[] := '{}';
    v_done integer := 0;
    v_at integer;
    v_edge integer;
    v_how text;
    v_rule text;
begin
    pending := array_fill(0, array[v_n]);
    fates := array_fill(null::text, array[v_n]);
    faults := array_fill(null::text, array[v_n]);
    edge_children := '{}'; edge_parents := '{}'; edge_settled := '{}';

    -- batches: one lock each, in id order
    for v_row in
        select b.id, b.status from tidemill.job_batches b
        where b.project_id = p_project_id
          and b.id in (select (e.job ->> 'batch_id')::uuid from jsonb_array_elements(p_jobs) as e (job) where e.job ->> 'batch_id' is not null)
        order by b.id for no key update
    loop
        v_refs := coalesce(v_refs, '{}') || jsonb_build_object(v_row.id::text, v_row.status::text);
    end loop;
    for v_row in
        select e.ord::integer as pos, lower(e.job ->> 'batch_id') as batch from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        where e.job ->> 'batch_id' is not null
    loop
        if coalesce(v_refs ->> v_row.batch, '') = '' then
            faults[v_row.pos] := format('batch_id: no batch %L in this project', v_row.batch);
        elsif v_refs ->> v_row.batch <> 'open' then
            faults[v_row.pos] := format('batch_id: batch %s is %s; only an open batch takes jobs', v_row.batch, v_refs ->> v_row.batch);
        end if;
    end loop;

    select coalesce(jsonb_object_agg(r.ref, r.pos), '{}') into v_refs
    from (select e.job ->> 'ref' as ref, min(e.ord) as pos from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
          where e.job ->> 'ref' is not null group by 1) r;

    -- edges, each once
    for v_row in
        select e.ord::integer as pos, jsonb_typeof(e.job -> 'depends_on') as kind,
               case when jsonb_typeof(e.job -> 'depends_on') = 'array' then jsonb_array_length(e.job -> 'depends_on') end as n
        from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        where coalesce(jsonb_typeof(e.job -> 'depends_on'), 'null') <> 'null'
    loop
        if v_row.kind <> 'array' then
            faults[v_row.pos] := 'depends_on: must be a list of job ids and {"ref": "…"} objects';
        elsif v_row.n > 1000 then
            faults[v_row.pos] := format('depends_on: %s parents; the limit is 1000', v_row.n);
        end if;
    end loop;
    for v_row in
        select distinct e.ord::integer as pos, case jsonb_typeof(d.parent) when 'string' then lower(d.parent #>> '{}') end as id,
               case jsonb_typeof(d.parent) when 'object' then d.parent ->> 'ref' end as ref
        from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        cross join lateral jsonb_array_elements(case jsonb_typeof(e.job -> 'depends_on') when 'array' then e.job -> 'depends_on' else '[]' end) as d (parent)
        where faults[e.ord] is null
        order by 1
    loop
        if v_row.ref is not null and v_refs ? v_row.ref then
            v_at := (v_refs ->> v_row.ref)::integer;
            if faults[v_at] is not null then
                faults[v_row.pos] := format('depends_on: its parent %L is refused', left(v_row.ref, 200));
            end if;
            v_children := v_children || v_row.pos;
            v_given := v_given || coalesce(p_twins[v_at], p_ids[v_at]);
            v_inside := v_inside || case when p_twins[v_at] is null or p_twins[v_at] = any(p_ids)
                                         then coalesce(array_position(p_ids, p_twins[v_at]), v_at) end;
        elsif v_row.id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then
            v_children := v_children || v_row.pos;
            v_given := v_given || v_row.id::uuid;
            v_inside := v_inside || null::integer;
        else
            faults[v_row.pos] := case when v_row.ref is not null then format('depends_on: no job of this call has the ref %L', left(v_row.ref, 200))
                                      else 'depends_on: each parent is a job id or {"ref": "…"}' end;
        end if;
    end loop;
    if cardinality(v_children) > 10000 then
        for v_at in 1..v_n loop
            faults[v_at] := coalesce(faults[v_at], format('depends_on: %s parents in one call; the limit is 10000', cardinality(v_children)));
        end loop;
        return;
    end if;

    select jsonb_object_agg(m.parent::text, m.standing) into v_standing
    from tidemill.mark_parents(p_project_id, array(
        select distinct v_given[i] from generate_subscripts(v_given, 1) as i where v_inside[i] is null order by 1)) as m;
    v_standing := coalesce(v_standing, '{}');

    -- Kahn: a position is ready once all its parents of this call are done
    select array_agg(coalesce(c.n, 0) order by p) into v_open
    from generate_series(1, v_n) as p left join (
        select v_children[i] as pos, count(*)::integer as n from generate_subscripts(v_children, 1) as i where v_inside[i] is not null group by 1) c on c.pos = p;
    select array_agg(i order by v_inside[i]) into v_out from generate_subscripts(v_children, 1) as i where v_inside[i] is not null;
    v_out := coalesce(v_out, '{}');
    select array_agg(coalesce(f.first, 0) order by p) into v_first
    from generate_series(1, v_n) as p left join (
        select v_inside[v_out[k]] as pos, min(k)::integer as first from generate_subscripts(v_out, 1) as k group by 1) f on f.pos = p;
    for v_at in 1..cardinality(v_children) loop
        if v_inside[v_at] is null then
            v_how := v_standing ->> v_given[v_at]::text;
            if v_how is null then
                faults[v_children[v_at]] := coalesce(faults[v_children[v_at]], format('depends_on: no job %s in this project', v_given[v_at]));
            end if;
        end if;
    end loop;
    v_ready := array(select p from generate_series(1, v_n) as p where v_open[p] = 0);
    while v_done < cardinality(v_ready) loop
        v_done := v_done + 1;
        v_at := v_ready[v_done];
        v_edge := v_first[v_at];
        while v_edge > 0 and v_edge <= cardinality(v_out) and v_inside[v_out[v_edge]] = v_at loop
            v_open[v_children[v_out[v_edge]]] := v_open[v_children[v_out[v_edge]]] - 1;
            if v_open[v_children[v_out[v_edge]]] = 0 then
                v_ready := v_ready || v_children[v_out[v_edge]];
            end if;
            v_edge := v_edge + 1;
        end loop;
    end loop;
    for v_at in 1..v_n loop
        if v_open[v_at] > 0 then
            faults[v_at] := coalesce(faults[v_at], 'depends_on: the jobs depend on each other in a circle');
        end if;
    end loop;

    -- in that order, what each child has to expect; a parent born cancelled has failed
    v_next := array_fill(0, array[v_n]);
    for v_row in
        select k.ord, v_children[i] as child, v_given[i] as parent, v_inside[i] as inside
        from unnest(v_ready) with ordinality as k (pos, ord)
        join generate_subscripts(v_children, 1) as i on v_children[i] = k.pos
        order by k.ord, i
    loop
        v_how := case when v_row.inside is null then v_standing ->> v_row.parent::text
                      when fates[v_row.inside] = 'cancel' then 'failed' else 'live' end;
        v_rule := coalesce(p_jobs -> (v_row.child - 1) ->> 'on_parent_failure', 'cancel');
        if v_how = 'failed' and v_rule <> 'run' and coalesce(fates[v_row.child], '') <> 'cancel' then
            fates[v_row.child] := v_rule;
        end if;
        if v_how = 'live' then
            pending[v_row.child] := pending[v_row.child] + 1;
        end if;
        edge_children := edge_children || v_row.child;
        edge_parents := edge_parents || v_row.parent;
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
