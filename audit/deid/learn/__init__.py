"""The training of taggers on annotated notes."""
