"""Step time if something were changed: the launch queue of a trace, its replay, changes, and what they predict."""
