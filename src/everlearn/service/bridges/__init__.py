"""Bridges to systems that people already run; each is one file and a client of a Memory."""
