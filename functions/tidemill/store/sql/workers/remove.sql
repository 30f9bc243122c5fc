-- Deregister a worker. Parameters: project_id, worker_id uuid. Rows: one if it was there. Its leases are released by the engine, not here.
with gone as (
    delete from tidemill.workers w where w.id = %(worker_id)s::uuid and w.project_id = %(project_id)s::uuid returning w.id
), beats as (
    delete from tidemill.worker_heartbeats h using gone g where h.worker_id = g.id
), beds as (
    delete from tidemill.queue_sleepers s using gone g where s.worker_id = g.id
)
select g.id::text from gone g
