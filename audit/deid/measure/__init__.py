"""How well taggers find, and what released notes still tell."""
