"""Reports and pictures in a real browser."""
