"""The access log: who saw, revealed, ran and exported which data when, each line chained."""
