"""One side of a comparison: its parts, their GPU activities and times, and the noise between them."""
