"""The assertions of `tracetui check`: a small language that is parsed and never evaluated as Python."""
