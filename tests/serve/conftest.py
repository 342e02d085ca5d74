"""The tests of the server are left out where the extra `web` is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if all(map(find_spec, ("starlette", "uvicorn", "websockets"))) else ["test_*.py"]
