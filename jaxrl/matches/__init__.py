"""Whole matches on fixed deals, and what is made of their results."""
