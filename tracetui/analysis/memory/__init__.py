"""The allocator and the copies."""
