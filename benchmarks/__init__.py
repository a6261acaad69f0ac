"""Benchmarks: claims about speed and accuracy, each measured beside its rival in one run."""
