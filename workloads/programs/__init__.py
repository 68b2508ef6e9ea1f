"""The programs that can be recorded."""
