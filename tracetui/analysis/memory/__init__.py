"""The allocator and copies."""
