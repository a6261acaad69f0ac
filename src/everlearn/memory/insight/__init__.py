"""Reports about a Memory: accuracy, explanations, evaluation, verification."""
