"""Idle time of devices: gaps, their causes, and the verdict on a step."""
