"""Tables, comparisons and checks as text."""
