"""Checks of the trace itself, and their warnings."""
