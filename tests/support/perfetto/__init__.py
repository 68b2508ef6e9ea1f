"""Perfetto protobuf files for tests: a writer of any bytes, and a plain reader as oracle."""
