"""`python -m tracetui`."""

from __future__ import annotations

import sys

from tracetui.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
