-- Waits for the claims that are under way and lets no other begin until the transaction ends, so that a limit set in it counts every lease: a claim
-- has either committed its leases by then or reads the limit. Acks and heartbeats wait as well, for as long as the few statements take.
-- Parameters: none. Rows: none. Locks: the table of leases; the transaction must hold nothing yet that claims or acks wait for.
lock table tidemill.job_leases in exclusive mode
