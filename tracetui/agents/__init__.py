"""Tools by which an assistant asks about the traces in a folder, and the protocol by which it calls them."""
