"""How fast tidemill is beside a bare psycopg loop on the same tables, in the same run: `scripts/bench`, docs/benchmarks.md.

Stands outside the import root because it writes the tables by hand, which nothing that is deployed may do.
"""
