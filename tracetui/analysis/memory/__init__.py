"""Allocator events and memory copies."""
