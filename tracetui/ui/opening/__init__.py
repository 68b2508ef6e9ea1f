"""Choosing a trace file and loading it."""
