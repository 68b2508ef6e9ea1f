"""Parts that the whole app uses: commands, messages, themes, the terminal driver, signals and crash handling."""
