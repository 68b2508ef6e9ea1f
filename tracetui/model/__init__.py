"""What a trace is: columns, lanes, tables and the arithmetic of intervals. Needs numpy only."""
