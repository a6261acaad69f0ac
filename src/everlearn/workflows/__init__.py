"""Workflows that combine a Memory, a cluster and a network: ingest, consolidate."""
