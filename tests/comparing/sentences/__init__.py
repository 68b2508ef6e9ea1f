"""What is said of two sides, and what must not be."""
