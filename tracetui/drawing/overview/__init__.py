"""The overview as a picture made of cells."""
