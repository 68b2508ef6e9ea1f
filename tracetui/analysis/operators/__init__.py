"""Operators: what they cost as torch counts it, their shapes, and those that launch nothing."""
