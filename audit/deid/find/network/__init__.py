"""Token classifiers: from text to tokens, from tokens to tags, from tags to spans."""
