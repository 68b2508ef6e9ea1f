"""The screen of a memory snapshot: a curve with a cursor, and below it the live memory there by owner."""
