"""What the counters of a trace measured: means over time ranges, and values of kernels."""
