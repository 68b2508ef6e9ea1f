"""Pure functions from a trace to tables, each result kept with its trace. Knows no file format and no screen."""
