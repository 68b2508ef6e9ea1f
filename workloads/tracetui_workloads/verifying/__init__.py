"""Operators of a trace, built again and timed in a process of their own."""
