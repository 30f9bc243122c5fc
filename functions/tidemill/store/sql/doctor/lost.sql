-- Jobs that are in no table that says where they stand, among the youngest and the oldest. There should be none, ever. Parameters: rows integer.
-- Rows: at most 5 ids. Locks: none.
select s.id::text
from tidemill.job_states s
where s.status is null and s.id in (
    (select j.id from tidemill.jobs j order by j.id desc limit %(rows)s::integer)
    union all
    (select j.id from tidemill.jobs j order by j.id limit %(rows)s::integer))
limit 5
