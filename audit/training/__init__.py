"""Full masked-LM pre-training: from notes to a hospital's model, resumable to the same weights."""
