"""How fast tracetui is, beside something everybody knows: `python -m tests.benchmarks`, or `make bench`.

Prints figures and ratios, and never passes or fails: times on a shared machine are no fact about a change, ratios
measured in one run nearly are. Every measurement runs in a process of its own, the sides of a comparison in turns.
`figures` has the rows of the table in `docs/performance.md`, `page` writes it, `peers` installs other programs.
"""
