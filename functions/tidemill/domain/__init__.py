"""What tidemill decides, without I/O, clock or chance: states, transitions, backoff, cron, limits, keys, errors."""
