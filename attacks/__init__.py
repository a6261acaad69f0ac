"""Faults injected and hostile input, run against ourselves."""
