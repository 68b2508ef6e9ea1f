"""What an assistant may ask of the traces in a folder, and the protocol by which it asks."""
