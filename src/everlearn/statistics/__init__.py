"""Additive state: labels and their slots, class moments, and an updatable factor."""
