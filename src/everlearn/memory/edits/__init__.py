"""Changes to a Memory: teach, forget, correct, merge, re-embed."""
