-- Say which project this transaction is about: a role that is fenced sees no other one's rows (migration 0015). Parameters: project_id text. Rows: one. Locks: none.
select set_config('tidemill.project_id', %(project_id)s::text, true)
