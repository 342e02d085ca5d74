"""Games of Magic for learners: decisions as small questions and as numbers, and games that survive their daemons."""
