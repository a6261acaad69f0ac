"""Shared parts of closed-form learners: class moments, and heads that compute scores from them."""
