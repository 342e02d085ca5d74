"""The engine of Forge games for learners: a batch of games that survive their daemons."""
