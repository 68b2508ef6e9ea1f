"""One side: its parts, what they ran and took, and how far they scatter."""
