"""Clinical notes as text: reading, formats, placeholders, dates, sentences, mentions of people."""
