"""The screen of one trace."""
