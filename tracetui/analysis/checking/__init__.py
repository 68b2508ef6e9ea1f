"""Assertions over a trace, in a small language of their own: nothing is evaluated as Python."""
