"""Checks of the trace itself."""
