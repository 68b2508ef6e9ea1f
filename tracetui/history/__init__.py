"""A folder of traces over time: a digest of each, series of runs that are alike, and where a measure changed."""
