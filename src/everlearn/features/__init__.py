"""Images in, vectors out: decoding under hard limits, and embedders."""
