"""Reading trace files into columns; the only package that knows file formats."""
