"""Analyses: pure functions from a trace to tables, cached per trace. Independent of file formats and of the screen."""
