"""Widgets that know no particular screen: surfaces, bars, lanes, lists, search, details, help."""
