"""Opponents: pools, ratings, tournaments and exploitability."""
