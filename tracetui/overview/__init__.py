"""The overview: what a step is spent on, what to do first, which steps are odd, what is heaviest."""
