"""A Memory in a PostgreSQL database, with many concurrent writers and readers."""
