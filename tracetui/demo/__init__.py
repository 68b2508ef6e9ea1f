"""Simulated traces of the series "Profiling in PyTorch" and of a puzzler, for whoever has no GPU."""
