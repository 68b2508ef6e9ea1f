"""The terminal app, and the only package that imports textual.

Textual reads environment variables when it is imported, so they are set here first: no animations, and at most thirty
frames per second over SSH, where bandwidth is scarce.
"""

import os

os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
if "SSH_CONNECTION" in os.environ:
    os.environ.setdefault("TEXTUAL_FPS", "30")
else:
    # One key press often draws twice, first the list and then the views of the selection: the second must not wait.
    os.environ.setdefault("TEXTUAL_FPS", "120")
