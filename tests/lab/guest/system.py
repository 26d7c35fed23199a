"""Actions of the host inside a guest, in addition to running programs."""
import base64
import http.client
import socket as sockets
from pathlib import Path


def write(path, content):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(base64.b64decode(content))


def read(path):
    return Path(path).read_text(errors="replace")


def ask(socket, path, method="GET"):
    """[status, body] from the abstract Unix socket "@NAME"."""
    connection = http.client.HTTPConnection("fairlead")
    connection.sock = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        connection.sock.settimeout(20)
        connection.sock.connect("\0" + socket[1:])
        connection.request(method, path)
        answer = connection.getresponse()
        return [answer.status, answer.read().decode()]
    finally:
        connection.close()
