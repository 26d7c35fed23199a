"""What the host has done inside a guest, besides running programs."""
import base64
import urllib.error
import urllib.request
from pathlib import Path


def write(path, content):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(base64.b64decode(content))


def read(path):
    return Path(path).read_text(errors="replace")


def http(url, method="GET"):
    """[status, body]"""
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return [answer.status, answer.read().decode()]
    except urllib.error.HTTPError as error:
        return [error.code, error.read().decode()]
