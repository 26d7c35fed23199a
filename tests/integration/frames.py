"""Frames between proxies, encoded and decoded independently of the proxy after docs/wire.md, and sockets that
announce them in SYN or SYN-ACK."""
import ctypes
import os
import platform
import re
import socket
import struct
from pathlib import Path

import peers
from harness import seconds

PREFACE = bytes.fromhex("fa1ead01")  # of a client without windows
PREFACE_WINDOWS = bytes.fromhex("fa1ead02")
DATA, URGENT, END, HAND_OVER, WINDOW = 1, 2, 3, 4, 7
FIRST_WINDOW = 4096
LIMIT = 128 * 1024  # bytes of one direction in frames
FRAME_MAX = 32 * 1024

# Priority by which a socket asks the option program to announce frames, without windows and with them, and the
# program's mark for an answer of a server that knows windows.
PRIORITY_WANTED, PRIORITY_WINDOWS_WANTED, PRIORITY_WINDOWS_ANSWERED = 4, 6, 0x534d4500
SYS_BPF = {"x86_64": 321, "aarch64": 280}
SYS_PIDFD_GETFD = 438
MAP_UPDATE_ELEM = 2
MAP_TYPE_SK_STORAGE = 24


def frame(kind, body=b"", length=None):
    return bytes([kind]) + (len(body) if length is None else length).to_bytes(3, "big") + body


def data(count, byte=b"x"):
    """Frames with this many bytes."""
    full, rest = divmod(count, FRAME_MAX)
    return frame(DATA, byte * FRAME_MAX) * full + (frame(DATA, byte * rest) if rest else b"")


def hand_over(position):
    return frame(HAND_OVER, struct.pack(">Q", position))


def window(position):
    return frame(WINDOW, struct.pack(">Q", position))


def receive(sock, kind=None):
    """The type and the body of the next frame."""
    head = peers.receive_exactly(sock, 4)
    body = peers.receive_exactly(sock, int.from_bytes(head[1:], "big"))
    assert kind in (None, head[0]), f"frame type {head[0]}, not {kind}: {(head + body)[:64].hex()}"
    return head[0], body


def receive_data(sock, count):
    """This many bytes of data in frames."""
    got = b""
    while len(got) < count:
        got += receive(sock, DATA)[1]
    return got


def system_call(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result


def announce(sock, proxy, wanted=PRIORITY_WINDOWS_WANTED):
    """The SYN of this socket, or its SYN-ACK, carries both options; `proxy` has the program that writes them.
    Call it before connect() or listen()."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, wanted)
    storage = next(info for info in Path(f"/proc/{proxy.pid}/fdinfo").iterdir()
                   if re.search(rf"^map_type:\s+{MAP_TYPE_SK_STORAGE}$", info.read_text(), re.MULTILINE))
    process = os.pidfd_open(proxy.pid)
    try:
        requested = system_call(SYS_PIDFD_GETFD, process, int(storage.name), 0)
    finally:
        os.close(process)
    try:
        key, value = ctypes.c_int(sock.fileno()), ctypes.c_uint32(1)
        attributes = struct.pack("=IIQQQ", requested, 0, ctypes.addressof(key), ctypes.addressof(value), 0)
        system_call(SYS_BPF[platform.machine()], MAP_UPDATE_ELEM, attributes, len(attributes))
    finally:
        os.close(requested)


def connect(address, proxy, answered=True):
    """A client's socket. `answered`: the listener must announce frames too; else it need not, as for a client that
    does not care."""
    made = socket.socket()
    made.settimeout(seconds(20))
    try:
        announce(made, proxy)
        made.connect(address[:2])
        priority = made.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY)
        assert not answered or priority == PRIORITY_WINDOWS_ANSWERED, f"frames were not announced: {priority:#x}"
    except (OSError, AssertionError):
        made.close()
        raise
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def serve(handle, proxy, windows=False):
    """A server whose listener announces frames."""
    listener = socket.socket()
    announce(listener, proxy, PRIORITY_WINDOWS_WANTED if windows else PRIORITY_WANTED)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    # Accepted sockets would inherit it.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)
    return peers.Server(handle, listener=listener)
