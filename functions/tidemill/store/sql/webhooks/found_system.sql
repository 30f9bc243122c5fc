-- Makes the system's own project and queue if they are not there. Parameters: none. Rows: one. Locks: organizations, projects, queues (insert).
select tidemill.found_system()
