"""The simulated traces: what was published is in them, and they are taken for no measurement."""
