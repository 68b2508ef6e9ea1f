"""The tables of what differs: in sum, by kernel and by operator."""
