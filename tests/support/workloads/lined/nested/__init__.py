"""A package with modules inside modules."""
