-- One at a time changes who is in an organization, so that two owners cannot leave at once. Parameters: id uuid. Rows: its id. Locks: organization.
select o.id::text from tidemill.organizations o where o.id = %(id)s::uuid for no key update
