"""What every part of the app rests on: commands, messages, themes, the terminal driver, signals, and how it ends."""
