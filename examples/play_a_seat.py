"""A program in a seat of `jaxrl serve`: makes a table, plays the first legal action until the game is over.

python examples/play_a_seat.py http://127.0.0.1:8765 skull_king
"""

import json
import sys
import urllib.request


def ask(server: str, path: str, body: dict) -> dict:
    """Sends a request; what changes something must come from a page of the server."""
    request = urllib.request.Request(server + path, json.dumps(body).encode(), {"Origin": server})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def play(server: str, game: str) -> list[int]:
    """Plays a game against the usual players; returns 1 for won, 0 for drawn, -1 for lost, by seat."""
    table = ask(server, "/api/tables", {"game": game})  # "seats": ["person", "bot:hard", ...] would choose players
    path, seat = f"/api/tables/{table['id']}/seat", {"key": next(filter(None, table["keys"]))}
    view = ask(server, path, seat)
    while not view["over"]:
        move = {}
        if not view["late"]:  # else the others still think, and it asks again
            number, name, _ = view["legal"][0]  # [[number, name, note], ...]; the position is view["text"]
            print(view["text"], name, sep="\n")
            move = {"action": number}
        view = ask(server, path, seat | move)
    return view["won"]


if __name__ == "__main__":
    print(play(*sys.argv[1:3]))
