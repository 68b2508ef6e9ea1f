"""Reads blocks of events as columns by a small library in C, where there is one."""
