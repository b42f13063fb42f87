"""The generative tagger: a causal language model that copies a note and writes tags into it."""
