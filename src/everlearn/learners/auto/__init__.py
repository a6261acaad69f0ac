"""``AutoClassifier``, and the heads it chooses from."""
