"""The durable Learner: images in, names out, nothing lost."""
