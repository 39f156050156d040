"""The command `mezzo`: one subcommand a file, its docstring is its help; and the driver that answers to `click`."""
