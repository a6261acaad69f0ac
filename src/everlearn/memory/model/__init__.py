"""The model that follows the journal, and the arrays that answer questions."""
