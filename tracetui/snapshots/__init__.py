"""Holders of the memory in a snapshot of the allocator: its history, what was live when, segments, out of memory."""
