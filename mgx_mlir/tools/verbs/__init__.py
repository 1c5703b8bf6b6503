"""The verbs of `mgx`, one a file: a docstring for the help, `add_arguments`, `run`."""
