-- What has to be done for accounts without anybody asking: keys that sign are changed in time, and what is long over goes.
-- The scheduler may call these functions and nothing else of them: it reads no secret, and takes nothing from the audit log that is younger than a year.

-- A new key for each purpose whose newest is older than p_older_secs; those before it sign no more and are taken back for p_overlap_secs, then removed.
-- Any number may call it at once: one does it, the others find it held and leave. Answers how many keys were made, and how many removed.
create function tidemill.tend_signing_keys(p_older_secs bigint, p_overlap_secs bigint, p_now timestamptz default null)
returns table (made bigint, removed bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_now constant timestamptz := coalesce(p_now, clock_timestamp());
begin
    made := 0;
    removed := 0;
    if p_older_secs < 3600 or p_overlap_secs < 1800 then
        raise exception 'keys live for an hour at least and are taken back for half of one: % and % s are too short', p_older_secs, p_overlap_secs
            using errcode = 'invalid_parameter_value';
    end if;
    if not exists (
        select from tidemill.signing_keys k
        where (k.retired_at is null and k.created_at <= v_now - make_interval(secs => p_older_secs)) or k.retired_at <= v_now - make_interval(secs => p_overlap_secs)
    ) or not pg_try_advisory_xact_lock(hashtextextended('tidemill.signing_keys', 1789)) then
        return next;
        return;
    end if;
    with newest as (
        select k.purpose, max(k.created_at) as at from tidemill.signing_keys k where k.retired_at is null group by k.purpose
    ), old as (
        select n.purpose from newest n where n.at <= v_now - make_interval(secs => p_older_secs)
    ), retired as (
        -- every one but the newest, and that too where another takes its place
        update tidemill.signing_keys k set retired_at = v_now
        from newest n
        where k.purpose = n.purpose and k.retired_at is null and (k.created_at < n.at or n.purpose in (select o.purpose from old o))
    ), fresh as (
        insert into tidemill.signing_keys (purpose, secret, created_at)
        select o.purpose, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), v_now from old o
        returning kid, purpose
    ), noted as (
        insert into tidemill.audit_log (actor_kind, action, target_kind, target_id, after)
        select 'system', 'signing_keys.rotate', 'signing_key', f.kid::text, jsonb_build_object('purpose', f.purpose, 'reason', 'its time had come') from fresh f
    )
    select count(*) into made from fresh;
    with gone as (
        delete from tidemill.signing_keys k where k.retired_at <= v_now - make_interval(secs => p_overlap_secs) returning 1
    )
    select count(*) into removed from gone;
    return next;
end $$;
revoke execute on function tidemill.tend_signing_keys(bigint, bigint, timestamptz) from public;

-- Removes notes of the audit log that are older than p_days, at most p_limit of them, the oldest first; how many. Never any from within a year, whatever is asked:
-- whoever may call this cannot cover a trace.
create function tidemill.prune_audit_log(p_days integer, p_limit integer) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with oldest as (
        select a.id, a.at from tidemill.audit_log a
        where (select f.at from tidemill.audit_log f order by f.id limit 1) < clock_timestamp() - make_interval(days => greatest(p_days, 365))
        order by a.id limit p_limit
    ), gone as (
        delete from tidemill.audit_log a using oldest o
        where a.id = o.id and o.at < clock_timestamp() - make_interval(days => greatest(p_days, 365))
        returning 1
    )
    select count(*) from gone
$$;
revoke execute on function tidemill.prune_audit_log(integer, integer) from public;

do $$
begin
    if exists (select from pg_roles r where r.rolname = 'tidemill_scheduler') then
        grant execute on function tidemill.tend_signing_keys(bigint, bigint, timestamptz), tidemill.prune_audit_log(integer, integer) to tidemill_scheduler;
    end if;
end $$;
