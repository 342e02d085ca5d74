"""Maker of the policies that come with jaxrl: `python -m scripts.zoo NAME`."""
