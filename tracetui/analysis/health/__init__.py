"""Doubts about the trace itself."""
