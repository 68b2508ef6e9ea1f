"""Which GPU work of one part goes with which of another."""
