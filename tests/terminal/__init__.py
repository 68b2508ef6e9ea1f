"""The app in a real tmux: what a person sees, and the terminal that they get back."""
