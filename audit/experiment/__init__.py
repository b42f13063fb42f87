"""The whole experiment of the paper as one command: sections 3 and 4, from notes to its tables."""
