"""Writing traces: a part of a trace as a new file, and a trace served to a browser."""
