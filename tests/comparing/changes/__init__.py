"""The tables of what differs."""
