"""Eigenspaces that learn image by image, and repair what they are shown."""
