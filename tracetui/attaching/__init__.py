"""Traces of PyTorch processes that already run, asked of the recorder (Kineto) inside them."""
