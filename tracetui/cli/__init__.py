"""The command line: `COMMANDS` of each file; slow imports are inside the functions that run a command."""
