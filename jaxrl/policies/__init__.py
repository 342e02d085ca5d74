"""Trained policies: found by name (`find`), in files (`export`, `standalone`), and how alike two of them are."""
