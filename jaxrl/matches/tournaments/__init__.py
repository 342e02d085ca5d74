"""Round robins and ratings."""
