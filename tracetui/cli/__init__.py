"""The command line: one file per command, each with `add_arguments` and `run`; slow imports are inside `run`."""
