"""Corpora: where notes, names and truth come from."""
