"""Recorded conversations with Forge's daemon: written, served again, and learnt from."""
