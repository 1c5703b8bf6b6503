"""The compiler's passes over mgx: one a file, named after the pass."""
