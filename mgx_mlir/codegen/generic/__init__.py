"""The one meaning of every op, as code for any target: one element or one row a thread."""
