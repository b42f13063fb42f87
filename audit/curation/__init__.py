"""From a hospital's notes to a corpus that can be audited, and the corpora that are kept."""
