"""A kernel as loops over buffers, for every target: what its memory is, and what runs."""
