"""Any kernel as nests of loops, whatever its sizes: the path for what no generator takes."""
