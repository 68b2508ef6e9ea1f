"""Idle time of devices, its causes, and the verdict on a step."""
