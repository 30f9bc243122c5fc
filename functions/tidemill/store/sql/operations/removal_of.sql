-- The operation that is removing a queue. Parameters: queue_id uuid. Rows: its id, if there is one. Few operations are being applied at a time. Locks: none.
select o.id::text from tidemill.operations o
where o.status = 'applying' and o.queue_id = %(queue_id)s::uuid
order by o.created_at limit 1
