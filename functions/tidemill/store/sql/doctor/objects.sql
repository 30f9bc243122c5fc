-- The schema's objects as its dump writes them: kind, name and the text that stands in the dump. Parameters: none. Rows: one per column, index, constraint,
--   function, trigger, type, view. Needs an empty search_path (dumps qualify every name). Locks: none.
select 'column' as kind, c.relname || '.' || a.attname as name, quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod) as text
from pg_attribute a
join pg_class c on c.oid = a.attrelid
where c.relnamespace = 'tidemill'::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
union all
select 'index', c.relname, pg_get_indexdef(i.indexrelid)
from pg_index i
join pg_class c on c.oid = i.indexrelid
where c.relnamespace = 'tidemill'::regnamespace and not exists (select 1 from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))
union all
select 'constraint', c.relname || '.' || k.conname, 'CONSTRAINT ' || quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid)
from pg_constraint k
join pg_class c on c.oid = k.conrelid
where k.connamespace = 'tidemill'::regnamespace and k.contype <> 'n'
union all
select 'function', p.proname, coalesce(nullif(btrim(p.prosrc), ''), p.proname)
from pg_proc p
where p.pronamespace = 'tidemill'::regnamespace
union all
select 'trigger', t.tgname, 'CREATE TRIGGER ' || quote_ident(t.tgname) || ' '
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
where c.relnamespace = 'tidemill'::regnamespace and not t.tgisinternal
union all
select 'type', t.typname || '.' || e.enumlabel, quote_literal(e.enumlabel)
from pg_type t
join pg_enum e on e.enumtypid = t.oid
where t.typnamespace = 'tidemill'::regnamespace
union all
select 'view', c.relname, 'CREATE VIEW tidemill.' || quote_ident(c.relname) || ' '
from pg_class c
where c.relnamespace = 'tidemill'::regnamespace and c.relkind = 'v'
order by 1, 2
