"""Step time if something were changed: the launch queue of a trace, its replay, changes of it, and what they predict."""
