"""Two traces, two steps or two stretches of one trace beside each other: what differs, and by more than noise."""
