"""What the closed-form learners share: class moments, and the heads that read scores off them."""
