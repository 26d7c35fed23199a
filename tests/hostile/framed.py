"""Frames of docs/wire.md as a hostile proxy sends them: valid ones first, then some that break the rules. Every attack
of CLIENT and SERVER begins with an honest conversation, and returns what shows that the victim had accepted that."""
import socket

import clc
import frames
from drawing import mutated, number

FRAMES_MAX = 30
KINDS = ("data", "data", "data", "byte", "bytes", "urgent", "end", "hand_over", "place", "window", "nonsense", "cut", "pause")
ENDLESS_BYTES = 4 * frames.LIMIT
FALSE_POSITIONS = (0, 1, frames.LIMIT, frames.LIMIT + 1, (1 << 32) - 1, (1 << 63), (1 << 64) - 1)


def drawn(rng):
    """Parts of what one connection sends, with a pause after each."""
    sent, part = 0, rng.choice((frames.PREFACE, frames.PREFACE_WINDOWS))
    for _ in range(rng.randint(0, FRAMES_MAX)):
        kind = rng.choice(KINDS)
        if kind in ("data", "byte"):
            count = 1 if kind == "byte" else rng.randint(1, 40_000)
            part, sent = part + frames.data(count), sent + count
        elif kind == "bytes":
            count = rng.choice((10, 1000, 4000))
            part, sent = part + frames.frame(frames.DATA, b"x") * count, sent + count
        elif kind == "urgent":
            part, sent = part + frames.frame(frames.URGENT, b"!"), sent + 1
        elif kind == "end":
            part += frames.frame(frames.END)
        elif kind == "hand_over":
            part += frames.hand_over(sent) + rng.choice(
                (b"", clc.proposal(), mutated(rng, clc.proposal()), rng.randbytes(100)))
        elif kind == "place":
            part += frames.hand_over(number(rng, 64))
        elif kind == "window":
            part += frames.window(rng.choice((0, frames.FIRST_WINDOW, 5000, frames.LIMIT, frames.LIMIT + 1, number(rng, 64))))
        elif kind == "nonsense":
            part += frames.frame(rng.randrange(256), rng.randbytes(rng.choice((0, 1, 8, 100))),
                                 rng.choice((None, number(rng, 24))))
        elif kind == "cut":
            part += rng.randbytes(rng.randint(1, 3))
        else:
            yield part
            part = b""
    yield part


def false_position(rng, right):
    return rng.choice([position for position in (*FALSE_POSITIONS, right + 1, max(0, right - 1), number(rng, 64))
                       if position != right])


def converse(sock, rng):
    """As a client: the preface and some data, which the application sends back. The number of bytes."""
    count = rng.choice((1, 100, 5000))
    sock.sendall(frames.PREFACE + frames.data(count))
    frames.receive_data(sock, count)
    return count


def agree(sock, rng):
    """As a client: both sides have handed over. The number of bytes that were sent before."""
    count = converse(sock, rng)
    sock.sendall(frames.hand_over(count))
    frames.receive(sock, frames.HAND_OVER)
    return count


class VictimReset(Exception):
    """The victim has reset the connection while this side still sent."""


def send_as_taken(sock, data):
    try:
        sock.sendall(data)
    except (ConnectionResetError, BrokenPipeError) as error:
        raise VictimReset from error
    except TimeoutError:  # it reads no more
        pass


def client_false_position(sock, rng):
    count = converse(sock, rng)
    sock.sendall(frames.hand_over(false_position(rng, count)) + clc.proposal())


def client_endless(sock, rng):
    count = converse(sock, rng)
    send_as_taken(sock, frames.data(ENDLESS_BYTES - count))


def client_one_byte(sock, rng):
    count = converse(sock, rng)
    one = frames.frame(frames.DATA, b"x")
    send_as_taken(sock, one * rng.choice((1000, frames.LIMIT - count, frames.LIMIT - count + 1)))


def client_silent_hand_over(sock, rng):
    agree(sock, rng)
    if rng.random() < 0.5:
        sock.sendall(clc.proposal()[:rng.randint(0, 60)])


def client_hands_over_twice(sock, rng):
    count = converse(sock, rng)
    sock.sendall(frames.hand_over(count) * 2)


def client_data_after_hand_over(sock, rng):
    count = agree(sock, rng)
    sock.sendall(rng.choice((frames.data(10), frames.frame(frames.END), frames.frame(frames.URGENT, b"!"),
                             frames.hand_over(count), rng.randbytes(50))))


def client_half_close_in_frame(sock, rng):
    converse(sock, rng)
    sock.sendall(frames.data(100)[:rng.randint(1, 103)])
    sock.shutdown(socket.SHUT_WR)


def client_hands_over_after_end(sock, rng):
    count = converse(sock, rng)
    sock.sendall(frames.frame(frames.END) + frames.hand_over(count))


def greet(sock):
    """As a server: the client's preface and its first data."""
    preface = sock.recv(len(frames.PREFACE), socket.MSG_WAITALL)
    assert preface == frames.PREFACE, preface.hex()
    return len(frames.receive(sock, frames.DATA)[1])


def await_hand_over(sock):
    """As a server, of a client whose application sends a lot."""
    greet(sock)
    while frames.receive(sock)[0] != frames.HAND_OVER:
        pass


def server_false_position(sock, rng):
    await_hand_over(sock)
    sock.sendall(frames.hand_over(false_position(rng, 0)))


def server_silent_hand_over(sock, rng):
    """The client waits for an answer, or for the Accept."""
    await_hand_over(sock)
    if rng.random() < 0.7:
        sock.sendall(frames.hand_over(0))
        clc.receive(sock, clc.PROPOSAL)


def server_hands_over_first(sock, rng):
    greet(sock)
    sock.sendall(frames.hand_over(rng.choice((0, 0, number(rng, 64)))))


def server_hands_over_too(sock, rng):
    """Both ends hand over at about the same time."""
    seen = greet(sock)
    until = rng.randint(1, BYTES_TO_HAND_OVER // 2)
    while seen < until:
        kind, body = frames.receive(sock)
        assert kind != frames.HAND_OVER, "the client has handed over too early"
        seen += len(body)
    sock.sendall(frames.hand_over(0))


def server_data_after_hand_over(sock, rng):
    await_hand_over(sock)
    sock.sendall(frames.hand_over(0) + rng.choice((frames.data(10), frames.frame(frames.END), frames.hand_over(0),
                                                   frames.frame(frames.URGENT, b"!"), rng.randbytes(50))))


def server_endless(sock, _rng):
    greet(sock)
    send_as_taken(sock, frames.data(ENDLESS_BYTES))


def server_one_byte(sock, rng):
    greet(sock)
    send_as_taken(sock, frames.frame(frames.DATA, b"x") * rng.choice((1000, frames.LIMIT, frames.LIMIT + 1)))


def server_half_close_in_frame(sock, rng):
    greet(sock)
    sock.sendall(frames.data(100)[:rng.randint(1, 103)])
    sock.shutdown(socket.SHUT_WR)


def server_clc_in_frames(sock, rng):
    """CLC before the hand-over, and without a preface."""
    greet(sock)
    sock.sendall(rng.choice((clc.decline(clc.NO_ROUTE), clc.answer(clc.ACCEPT, bytes(16)), frames.PREFACE,
                             clc.answer_v1(clc.ACCEPT, bytes(16)), rng.randbytes(200))))


CLIENT = {"false_position": client_false_position, "endless": client_endless, "one_byte": client_one_byte,
          "silent_hand_over": client_silent_hand_over, "hands_over_twice": client_hands_over_twice,
          "data_after_hand_over": client_data_after_hand_over, "half_close_in_frame": client_half_close_in_frame,
          "hands_over_after_end": client_hands_over_after_end}
SERVER = {"false_position": server_false_position, "silent_hand_over": server_silent_hand_over,
          "hands_over_first": server_hands_over_first, "hands_over_too": server_hands_over_too,
          "data_after_hand_over": server_data_after_hand_over, "endless": server_endless, "one_byte": server_one_byte,
          "half_close_in_frame": server_half_close_in_frame, "clc_in_frames": server_clc_in_frames}
# Attacks of a server whose client has to hand over: its application sends so much.
BYTES_TO_HAND_OVER = 100_000
AFTER_HAND_OVER = ("false_position", "silent_hand_over", "hands_over_too", "data_after_hand_over")
