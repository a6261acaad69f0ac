"""The model that follows the journal, and what a question needs of it."""
