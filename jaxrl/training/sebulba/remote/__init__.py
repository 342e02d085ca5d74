"""Games of a training that are played on other machines: workers of a Ray cluster behind `send` and `recv`."""
