"""Functions that several analyses use: groups and trees of rows, lanes as numbers, unions of intervals."""
