"""Learners: one algorithm, one file."""
