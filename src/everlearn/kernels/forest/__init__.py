"""Compiled functions of the forests: a tree as flat arrays, and what is done to it.

A tree is never changed under a reader: an update works on a copy, which shares the vectors of the
nodes that stay as they are.
"""
