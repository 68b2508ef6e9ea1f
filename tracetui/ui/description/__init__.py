"""The description of a selected slice as lines of text; pure functions."""
