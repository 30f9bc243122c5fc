"""The verbs, one file each. They decide with `domain` and act through `ports`; no SQL, no HTTP, no clock of their own."""
