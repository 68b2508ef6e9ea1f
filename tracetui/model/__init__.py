"""The data of a trace: columns of slices, lanes, tables, and interval arithmetic. Needs numpy only."""
