"""Bridges to other systems; each is one file and acts as a client of a Memory."""
