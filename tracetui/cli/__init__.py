"""The command line: one file per command, each with `add_arguments` and `run`; what costs is imported in `run`."""
