"""What a rebuilding may not change, and what it is to bring down: numbers, and the figures of the code itself."""
