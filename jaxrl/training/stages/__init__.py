"""Stages of a training: the curriculum, and runs that continue others."""
