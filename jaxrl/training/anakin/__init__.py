"""The Anakin loop: games, policy and update in one compiled program."""
