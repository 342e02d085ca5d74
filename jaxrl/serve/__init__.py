"""`jaxrl serve`: play, watch, look at replays and runs in a browser.

`server.py` is what all rooms share; `guard.py` lets requests in; `app.py` gathers the rooms' routes. A room is a module
with `routes(server)`: `tables.py`, `runs.py`, `replays.py`. What browsers get lies in `static/`, plain files without a
build step; nothing is loaded from elsewhere.
"""
