"""Driving by hand in the browser."""
