"""What several analyses compute with: groups and trees of rows, lanes as numbers, unions of intervals."""
