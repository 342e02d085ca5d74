"""Estimates of a training that does not run here: hours and cost, of a fleet of workers or on a GPU (`jaxrl plan`)."""
