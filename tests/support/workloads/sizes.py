"""Parameters of workloads that make recordings short."""

from __future__ import annotations

SMALL = {
    "matmul_add": {"size": 8},
    "linear": {"batch": 4},
    "mlp": {"batch": 2, "seq": 4, "dim": 16, "hidden": 32},
    "split_stack": {"batch_size": 2, "input_dim": 8},
    "combined": {"batch_size": 2, "input_dim": 8},
}
"""Parameters that change sizes and no count."""


ATTENTION: dict = {"batch": 1, "heads": 2, "seq": 16, "head_dim": 8}
