"""Taggers, which find personal information in a text, and the borders of what they find."""
