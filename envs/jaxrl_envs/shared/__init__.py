"""Modules that several games share."""
