"""Streams: where examples come from, and the order in which they are shown."""
