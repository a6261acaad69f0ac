"""The data sets of the papers: found or fetched, read from packs."""
