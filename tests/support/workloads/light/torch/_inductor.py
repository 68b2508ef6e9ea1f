"""What the profiler would import."""
