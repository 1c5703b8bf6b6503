"""One file for each family of ops; all modules are loaded so that `lowers` registers their ops."""
