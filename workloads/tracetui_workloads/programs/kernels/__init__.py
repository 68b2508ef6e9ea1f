"""Triton kernels: each file holds a kernel, its autograd function and the `nn.Module` that calls it, in this order.

These modules import torch and triton at the top; the child process imports them after it has checked for both.
"""
