-- Change an organization. Parameters: id uuid; name text or null (stays); payloads_hidden_from text (a JSON array) or null (stays). Rows: its id. Locks: organization.
update tidemill.organizations o
set name = coalesce(%(name)s::text, o.name),
    settings = case when %(payloads_hidden_from)s::jsonb is null then o.settings
                    else jsonb_set(o.settings, '{payloads_hidden_from}', %(payloads_hidden_from)s::jsonb) end
where o.id = %(id)s::uuid
returning o.id::text
