"""Traces on their way out: a part of one as a new file, and a file for a browser."""
