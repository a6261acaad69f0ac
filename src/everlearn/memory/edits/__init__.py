"""What changes a Memory: teaching, forgetting, correcting, embedding anew."""
