"""Triton kernels: each module holds the kernel, the autograd function and the module that uses it, in this order.

They import torch and triton when they are imported, which the recording child does after it has looked for both.
"""
