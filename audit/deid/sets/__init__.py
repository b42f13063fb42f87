"""Sets of notes: notes and answers that come in, tagged sets that are kept, their releases."""
