"""Matching the GPU activities of one part with those of another."""
