"""What torch says of a device, as JSON: `python3 -m tests.benchmarks.gpu_card cuda`; exit code 1 where it has none."""

from __future__ import annotations

import json
import platform
import sys
from datetime import UTC, datetime
from typing import Any


def main() -> int:
    """Print what there is."""
    import torch

    about: dict[str, Any] = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
    }
    about["day"] = datetime.now(UTC).date().isoformat()
    if sys.argv[1] == "cpu":
        print(json.dumps({**about, "name": "cpu", "is_gpu": False}))
        return 0
    if not torch.cuda.is_available():
        return 1
    card = torch.cuda.get_device_properties(0)
    about |= {"name": card.name, "is_gpu": True, "sms": card.multi_processor_count}
    print(json.dumps({**about, "capability": f"{card.major}.{card.minor}", "bytes": card.total_memory}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
