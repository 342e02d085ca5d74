"""Magic: The Gathering through Forge: a daemon in the engine's JVM, and the host game that plays with it."""

BOTS = ("random", "forge", "forge:Default", "forge:Cautious", "forge:Reckless")
