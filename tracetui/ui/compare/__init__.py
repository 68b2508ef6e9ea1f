"""The screen of two traces."""
