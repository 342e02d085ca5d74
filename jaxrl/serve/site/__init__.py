"""A game against a trained policy as static files, without a server (`jaxrl serve --site`)."""

PAGE = "browser"  # the module of a game that has the files of its page
NETWORK = "policy.bin"  # of a page
