"""What an audit found, as one value, on screens and as files that are handed over."""
