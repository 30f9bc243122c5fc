-- The transaction that closed the queue of a removal. Parameters: id uuid. Rows: xid. Locks: none.
select o.closed_xid::text from tidemill.operations o where o.id = %(id)s::uuid
