"""A Memory in a PostgreSQL database: many writers, many askers, one order."""
