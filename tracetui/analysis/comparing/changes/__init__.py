"""Tables of changes: totals, by kernel and by operator."""
