"""Reading many traces, each to the summary of its rank: in worker processes, or from the cache."""
