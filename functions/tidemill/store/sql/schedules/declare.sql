-- Notes which program declares a schedule. Parameters: id uuid; declared_by text. Rows: its id.
update tidemill.scheduled_jobs s set declared_by = %(declared_by)s where s.id = %(id)s::uuid returning s.id::text
