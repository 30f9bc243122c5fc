-- Accounts: what the audit log is searched by.

-- squawk-ignore-file require-concurrent-index-creation
-- (Nothing has written the log before this version, so that these indexes are made on an empty table.)

-- One index per filter that names something; each ends in the order of the list.
create index audit_log_by_target on tidemill.audit_log (project_id, target_kind, target_id, id);
create index audit_log_by_actor on tidemill.audit_log (project_id, actor_id, id);
create index audit_log_by_action on tidemill.audit_log (project_id, action, id);
create index audit_log_by_org on tidemill.audit_log (org_id, id) where org_id is not null;
