"""Players: the type (`player`) and their names (`spec`, `names`)."""
