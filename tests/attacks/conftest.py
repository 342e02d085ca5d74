"""The attacks on the server are left out where the extra `web` is not installed."""

from importlib.util import find_spec

SERVER = ["test_server.py", "test_server_files.py", "test_server_secrets.py"]
collect_ignore = [] if all(map(find_spec, ("starlette", "uvicorn", "websockets"))) else SERVER
