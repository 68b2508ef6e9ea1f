"""Tables and slices drawn as text and terminal cells; no widgets and no input."""
