"""Anonymising: every name that is a user's own replaced by a stand-in, for `tracetui cut --hash-names`."""
