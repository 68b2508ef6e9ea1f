"""What is said about a selected slice, as lines of text. Pure."""
