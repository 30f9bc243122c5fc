-- A project's rate classes by name, or one of them. Parameters: project_id uuid; name text or null (all); after text or null (exclusive); limit integer.
-- Rows: at most limit; tokens: as of now. Locks: none.
select r.name::text, r."limit", r.window_ms, r.burst, r.is_paused,
       round(tidemill.tokens_now(r, statement_timestamp())::numeric, 3)::double precision as tokens,
       case when r.closed_until > statement_timestamp() then r.closed_until end as closed_until
from tidemill.rate_classes r
where r.project_id = %(project_id)s::uuid and (%(name)s::text is null or r.name = %(name)s::text)
  and (%(after)s::text is null or r.name > %(after)s::text)
order by r.name
limit %(limit)s::integer
