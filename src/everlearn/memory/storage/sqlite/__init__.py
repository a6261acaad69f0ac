"""A Memory in a folder: one SQLite file, one writer, any number of readers."""
