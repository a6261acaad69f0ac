"""Learning a new class from what is already known."""
