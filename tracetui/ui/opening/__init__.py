"""Finding traces and reading them."""
