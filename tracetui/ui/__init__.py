"""The terminal app, and the only place that imports textual.

Textual reads its environment when it is imported, so what should hold for this app is set here, first:
nothing animates, and over SSH, where every byte is a cost, at most thirty frames a second are written.
"""

import os

os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
if "SSH_CONNECTION" in os.environ:
    os.environ.setdefault("TEXTUAL_FPS", "30")
else:
    # A key often paints twice, the list first and what follows the selection next: the second must not wait.
    os.environ.setdefault("TEXTUAL_FPS", "120")
