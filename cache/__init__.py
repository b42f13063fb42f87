"""Results on disk, by content key. Knows no audit."""
