"""Corpora: D_private, D_public, the truth about both, canaries, and what a corpus holds."""
