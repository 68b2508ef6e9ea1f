"""The built-in programs that can be recorded."""
