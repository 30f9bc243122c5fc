-- New keys for the purposes whose newest is too old, and an end to those that are taken back no longer; by one caller at a time, the others leave: nobody stands in line (migration 0017).
-- Parameters: older_secs, overlap_secs bigint; now timestamptz or null. Rows: one: keys made, keys removed. Locks: keys.
select t.made, t.removed from tidemill.tend_signing_keys(%(older_secs)s::bigint, %(overlap_secs)s::bigint, %(now)s::timestamptz) t limit 1
