"""Collision: contact points between bodies, and the solver of their contacts."""
