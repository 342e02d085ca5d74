"""A game against a trained policy as static files, without a server (`jaxrl site`)."""
