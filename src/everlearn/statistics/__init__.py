"""Additive state: labels and their slots, moments, and a factor that follows them."""
