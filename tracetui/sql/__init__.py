"""SQL over traces: the views, the database that answers queries, and its results as tables."""

MAX_ROWS = 10_000
"""Rows of an answer, where no other number is asked for."""
MAX_SECONDS = 30.0
"""Seconds that a query may take."""
MAX_MEMORY_MB = 1024
"""MiB that a query may take beside the traces."""
