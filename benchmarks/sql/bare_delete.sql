-- What a delete cannot do without. Parameters: ids uuid[].
with gone as (
    delete from tidemill.jobs j where j.id = any(%(ids)s::uuid[])
)
delete from tidemill.dead_letter_queue d where d.job_id = any(%(ids)s::uuid[])
