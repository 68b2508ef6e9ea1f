"""Choosing a workload to record, and the progress of the recording."""
