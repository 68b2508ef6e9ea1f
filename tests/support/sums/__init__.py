"""A second count of what the panes show, slice by slice in plain Python: parts must add up to it.

Every check takes a trace and the number of a step, None for the whole trace. Times are ns.
"""
