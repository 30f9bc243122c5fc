"""Events and figures, formatted for those who watch: the only place that knows how a log line or a metric looks."""
