"""One file for each family of ops; every module here is loaded to find what `lowers` registers."""
