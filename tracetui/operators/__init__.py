"""Operators: their costs as torch counts them, their shapes, and those that launch nothing."""
