"""From bytes to columns: the only place that knows a file format."""
