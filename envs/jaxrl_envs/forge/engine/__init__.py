"""Forge's games for learners: decisions as sequences of actions and as arrays, and games that survive their daemons."""
