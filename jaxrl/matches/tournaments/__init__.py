"""Round robins, ratings, and what published win matrices say about them."""
