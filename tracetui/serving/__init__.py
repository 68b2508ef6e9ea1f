"""Steps of an inference server by kind and batch, what lies between them, and what its kernels are for."""
