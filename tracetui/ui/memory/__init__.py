"""The screen of a memory snapshot: a curve with a cursor, and below it who holds what there."""
