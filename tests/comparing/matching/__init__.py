"""Which GPU work goes with which."""
