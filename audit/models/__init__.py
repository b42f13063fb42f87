"""Loading, checking and running masked language models."""
