"""Models that need the host: parts that compile, operators that the host computes, sizes of each run."""
