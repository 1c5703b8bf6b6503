"""A kernel as loops over buffers, for every target: its pieces of memory, and its loop nests."""
