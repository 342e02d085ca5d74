"""What acts in a game: bots, networks, searches and people, and the names by which they are given."""
