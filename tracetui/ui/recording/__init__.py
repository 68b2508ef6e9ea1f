"""Choosing what to record, and watching it being recorded."""
