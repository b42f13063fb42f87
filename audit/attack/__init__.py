"""From a request to judged scores: the two attacks, their evidence and what follows from it."""
