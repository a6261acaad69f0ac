"""What needs a Memory, a cluster and a network together."""
