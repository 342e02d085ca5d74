"""A fake Forge daemon, made-up and recorded conversations, and checks of real ones, for tests."""
