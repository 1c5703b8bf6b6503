"""The command-line tools: `mgx` and `mgx-opt`."""
