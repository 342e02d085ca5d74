"""Card tables in the browser: people and policies play each other."""
