"""Remote workers: host games played on the machines of a Ray cluster, behind `send` and `recv`."""
