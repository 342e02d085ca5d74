"""Searches for hyper-parameters by Optuna."""
