"""Perfetto's protobuf format to columns: torch's encoder, and what other producers write, in one reading.

`recognition` says by content that a file is of this format, and names what is in it. The columns of packets keep their
sequence, flags, clock and position in the file. What these mean is worked out once, on the columns of the whole file:
`sequences` gives each packet its state, finds interned texts in it, and puts times on one clock.
"""
