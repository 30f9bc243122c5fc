"""What the tests stand on: a database server for the run, a database per test."""
