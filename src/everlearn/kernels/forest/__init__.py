"""Compiled functions of the forests: a tree as flat arrays, and what is done to it.

A tree is never changed under a reader: an update works on a copy of the small arrays and only
appends to the large one, the vectors, behind what the old tree knows of.
"""
