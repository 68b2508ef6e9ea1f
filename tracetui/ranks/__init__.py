"""Traces of many ranks: which files are one run, whose clock is ahead, who is late, where and why."""
