"""Players: the type, their names (`spec`), how they are found (`find`), and policy files (`export`)."""
