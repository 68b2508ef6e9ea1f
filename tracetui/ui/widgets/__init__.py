"""Widgets that do not depend on a particular screen: surfaces, bars, lanes, lists, search, details, help."""
