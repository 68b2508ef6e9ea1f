"""Links between slices: launch and GPU activity, op and step, forward and backward, frames, graphs."""
