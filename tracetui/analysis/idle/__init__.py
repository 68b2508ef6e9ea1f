"""When devices ran nothing, why, and what that says of a step."""
