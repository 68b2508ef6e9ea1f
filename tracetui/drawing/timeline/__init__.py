"""Slices to cells: lanes, axis, colours and layout of the timeline."""
