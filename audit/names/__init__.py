"""Names of people: pools, invented people, candidates and their controls, lists, matching."""
