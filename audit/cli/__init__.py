"""The command line: python -m audit demo | run | score | selftest | results | jobs and more.

Each room of the program has a module of commands here. Commands make the same calls as the pages.
"""

from audit.cli.command_line import main

__all__ = ["main"]
