"""``AutoClassifier`` and what it chooses by and from."""
