"""Programs worth profiling and what records them; imports nothing from tracetui."""
