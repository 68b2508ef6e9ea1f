"""Comparing two sides: programs recorded by hand, real traces edited, and what is found between them."""
