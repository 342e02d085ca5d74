"""Policies as files of other programs, which run without jaxrl and without jax."""
