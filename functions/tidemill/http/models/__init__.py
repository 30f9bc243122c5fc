"""What requests and answers look like. TypedDicts, so that importing them builds no schema; `validation` builds it at first use."""
