-- For the rest of this transaction every name is written in full, as in a dump. Parameters: none. Rows: one.
select set_config('search_path', '', true)
