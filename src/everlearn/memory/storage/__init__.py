"""The journal on disk, and everything that keeps it safe."""
