"""Six programs whose operators are listed by hand, line by line, in comments that begin with `#:`.

Before the semicolon stand the operators that the line calls itself, behind it the nodes of the backward pass that these
created (without `Backward0`); `x2` counts. The number is that of one call of `step`.
"""
