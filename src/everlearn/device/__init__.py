"""Arrays on a GPU: devices, and how rows get there."""
