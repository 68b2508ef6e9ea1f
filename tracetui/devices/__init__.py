"""Limits of devices, and the occupancy of kernels on them."""
