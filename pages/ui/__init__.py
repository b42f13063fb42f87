"""What the screens share: router, words, escaping, charts, headers."""
