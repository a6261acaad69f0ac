"""Attacks against ourselves: fault injection and hostile input."""
