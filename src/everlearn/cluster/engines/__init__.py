"""One small adapter per engine, and the lookup of an engine by name."""
