"""Workloads: programs to profile, and the code that records them. Imports nothing from tracetui."""
