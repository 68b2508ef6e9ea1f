"""What an inference server did: its steps by kind and batch, what lies between them, and what its kernels are for."""
