"""What a device can do and how a kernel fills it."""
