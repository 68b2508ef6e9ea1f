"""When devices were idle, why, and what that says about a step."""
