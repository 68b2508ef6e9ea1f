"""Pure functions from a trace to tables, each result kept with its trace. They know no file format and no screen."""
