"""Decks: read and compared with the cards that a Forge knows, and made by chance from them."""
