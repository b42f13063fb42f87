"""Invented notes: masks are typed, translated and filled with the values of an identity."""
