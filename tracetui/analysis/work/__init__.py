"""The work of kernels in operations and bytes, and how close they come to what the device could do."""
