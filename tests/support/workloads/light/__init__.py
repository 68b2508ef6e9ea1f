"""A folder for the search path of a recording, in which a torch lies that is there at once."""
