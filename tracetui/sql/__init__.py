"""SQL over traces: the views, the database that answers queries, and its results as tables."""
