"""Comparing two traces, or two steps or time ranges of one trace: what differs by more than noise."""
