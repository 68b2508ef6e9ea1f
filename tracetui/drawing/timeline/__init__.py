"""The timeline as terminal cells: lanes, axis, colours and layout."""
