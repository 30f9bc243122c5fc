-- A second fence between projects. Who connects as a member of tidemill_fenced sees and changes the rows of one project only:
-- the one that `set_config('tidemill.project_id', …, true)` names in the transaction, and none where it names none. The first fence is
-- that every statement asks for its project; this one holds where a statement forgets to.
--
-- Not around `jobs` itself: comparing an enum counts as leaky, so with any policy on that table, also one that says `true`, no role but the
-- owner could use the index by phase (seen: lists and bulk operations walked the whole project instead). Jobs are seen through `job_states`,
-- which joins their queue, and so it ends at the fence; what is written beside a job (entry, lease, execution, log, dead letter) has its own;
-- and a transaction that has named its project can change and delete no other one's jobs, whoever runs it (the trigger at the end).
--
-- tidemill_admin, which serves all that operators and people see and do, is a member. The functions of the data plane are not: for them,
-- as for every other role, a policy says `true`, and their plans are what they were without it (tests/store/test_fence.py).
-- The owner of the tables (migrator, laptop) is not asked at all. A reader of your own: `grant tidemill_fenced to grafana`.

create function tidemill.fence(p_table text, p_rows text) returns void
language plpgsql as $$
begin
    execute format('alter table tidemill.%I enable row level security', p_table);
    execute format('create policy open_to_grants on tidemill.%I using (true)', p_table);
    if exists (select from pg_roles r where r.rolname = 'tidemill_fenced') then
        execute format('create policy project_fence on tidemill.%I as restrictive to tidemill_fenced using (%s)', p_table, p_rows);
    end if;
end
$$;
comment on function tidemill.fence is 'For migrations: puts the fence around a table; p_rows says which rows are of the project.';

do $$
declare
    -- Read once per statement, and good for an index.
    own constant text := '(select nullif(current_setting(''tidemill.project_id'', true), '''')::uuid)';
    -- Tables whose rows belong to a project by way of another table: column, and the table it leads to.
    ways constant text[] := array[
        'queue_id', 'queues', 'operation_id', 'operations', 'scheduled_job_id', 'scheduled_jobs', 'job_id', 'jobs', 'worker_id', 'workers'];
    columns text[];
    name text;
    step integer;
begin
    if (select r.rolcreaterole or r.rolsuper from pg_roles r where r.rolname = current_user) then
        begin
            if not exists (select from pg_roles r where r.rolname = 'tidemill_fenced') then
                create role tidemill_fenced nologin;
            end if;
            if exists (select from pg_roles r where r.rolname = 'tidemill_admin') then
                grant tidemill_fenced to tidemill_admin;
            end if;
        exception when duplicate_object or unique_violation then
            null; -- another database's migrator was faster
        end;
    else
        raise notice 'tidemill: % may not create roles, so nobody is fenced to one project', current_user;
    end if;

    for name, columns in
        select c.relname::text, array_agg(a.attname::text)
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = 'tidemill'::regnamespace and c.relkind = 'r'
        group by c.relname
        order by c.relname
    loop
        if name = 'jobs' then
            continue;
        elsif name = 'api_keys' then
            -- Who is calling is looked up before there is a project; only a hash is there to see.
            perform tidemill.fence(name, format('project_id = %1$s or %1$s is null', own));
        elsif name = 'audit_log' then
            -- What happens to an organization or a login has no project.
            perform tidemill.fence(name, format('project_id = %1$s or project_id is null or (%1$s is null and org_id is not null)', own));
        elsif 'project_id' = any (columns) then
            perform tidemill.fence(name, format('project_id = %s', own));
        else
            for step in 1 .. array_length(ways, 1) by 2 loop
                if ways[step] = any (columns) then
                    perform tidemill.fence(name, format(case when ways[step + 1] = 'jobs'
                        then 'exists (select from tidemill.%2$I o where o.id = %1$I and o.project_id = %3$s)'
                        else '%1$I in (select o.id from tidemill.%2$I o where o.project_id = %3$s)' end, ways[step], ways[step + 1], own));
                    exit;
                end if;
            end loop;
        end if;
    end loop;

    -- A view reads with the rights of whoever asks, so that the fence holds behind it.
    for name in select c.relname from pg_class c where c.relnamespace = 'tidemill'::regnamespace and c.relkind = 'v' loop
        execute format('alter view tidemill.%I set (security_invoker = true)', name);
    end loop;
end
$$;

create function tidemill.refuse_foreign_job() returns trigger
language plpgsql as $$
begin
    raise insufficient_privilege using message = 'this transaction is about another project than this job';
end
$$;
-- The condition is looked at without calling the function; where no project is named it is null.
create trigger project_fence before update or delete on tidemill.jobs for each row
    when (old.project_id <> nullif(current_setting('tidemill.project_id', true), '')::uuid) execute function tidemill.refuse_foreign_job();
