"""What belongs to what: launch and work, op and step, forward and backward, frames, graphs."""
