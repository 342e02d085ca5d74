"""The version of the package, which its metadata reads without importing anything else."""

__version__ = "0.1.0"
