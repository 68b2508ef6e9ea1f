"""What is said of two sides: what makes it unfair, what differs and by how much, and what explains it."""
