"""Another shortener on the same links: chhoto-url, the fastest of those that were compared. `--peer` names its binary; nothing is built or fetched here."""

import http.client
import json
import os

from harness import links
from harness.servers import Failure, Server, free_port, pinned

KEY = "bench-only-Key-0123456789-abcdef-0123456789"
BATCH = 1000
STATUS = 307


def start(lab, numbered):
    """Starts the peer with the same codes and targets as terse."""
    folder = os.path.join(lab.folder, "peer")
    os.makedirs(folder, exist_ok=True)
    port = free_port()
    settings = {
        "LISTEN_ADDRESS": "127.0.0.1", "LISTEN_PORT": str(port), "DB_URL": os.path.join(folder, "urls.sqlite"), "API_KEY": KEY, "PASSWORD": KEY,
        "REDIRECT_METHOD": "TEMPORARY", "ALLOW_CAPITAL_LETTERS": "True", "SQLITE_USE_WAL_MODE": "True", "DISABLE_FRONTEND": "True",
    }
    env = {**os.environ, **{f"CHHOTO_{name}": value for name, value in settings.items()}}
    command = pinned(lab.server_cores, [os.path.abspath(lab.chosen.peer)])
    server = Server("peer", command, port, port, os.path.join(folder, "peer.log"), env)
    lab.servers.append(server)
    server.wait_for("/api/version", 200)
    fill(server, numbered)
    number, path = numbered[-1]
    if server.get(path) != (STATUS, links.target(number)):
        raise Failure(f"the peer answers {path} with {server.get(path)}")
    return server


def fill(server, numbered):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        for begin in range(0, len(numbered), BATCH):
            some = [{"shortlink": path.strip("/"), "longlink": links.target(number)} for number, path in numbered[begin:begin + BATCH]]
            connection.request("POST", "/api/new", json.dumps(some), {"X-API-Key": KEY, "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200 or b'"error":true' in text:
                raise Failure(f"the peer did not take the links: {answer.status} {text[:300]}")
    finally:
        connection.close()
