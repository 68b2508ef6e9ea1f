"""Machines with and without a GPU, as `tracetui_workloads.machine` sees them."""

from __future__ import annotations

from dataclasses import replace

from tracetui_workloads.machine import Machine

CPU_ONLY = Machine(torch="2.13.0+cpu", torch_gpu=None, driver=None, triton=False, compiler="/usr/bin/g++")


GPU = replace(CPU_ONLY, torch="2.13.0", torch_gpu="cuda", driver="cuda", triton=True)
