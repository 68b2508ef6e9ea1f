"""Operators: their costs as torch counts them, their shapes, and operators that launch nothing."""
