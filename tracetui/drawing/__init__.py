"""Tables and slices to text and cells: no widgets, no terminal, nothing that waits for a key."""
