"""What a Memory can say about itself."""
