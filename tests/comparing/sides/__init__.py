"""One side: what it is, what is measured of it, and how that scatters."""
