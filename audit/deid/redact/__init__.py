"""What is taken out of a text and what replaces it: kinds, policies, persons, surrogates."""
