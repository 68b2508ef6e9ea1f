"""Sentences about a comparison: what makes it unfair, what differs and by how much, and what explains it."""
