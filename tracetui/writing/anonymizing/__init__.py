"""Anonymising: every name from the user's code is replaced by a stand-in, for `tracetui cut --hash-names`."""
