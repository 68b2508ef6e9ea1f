"""The screens of a set of ranks: its tables, and a late rank beside a median one."""
