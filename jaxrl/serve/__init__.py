"""`jaxrl serve`: play, watch, look at replays and runs in a browser.

`server.py` holds what all pages share, `guard.py` admits requests, and `app.py` collects the routes. Each subpackage is
one kind of page (tables, driving, replays, runs) with a function `routes(server)`. Browsers load plain files from
`static/`, without a build step; nothing is loaded from elsewhere.
"""
