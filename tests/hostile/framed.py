"""Frames of docs/wire.md as a hostile client sends them: valid ones first, then some that break the rules."""
import clc
import frames
from drawing import mutated, number

FRAMES_MAX = 30
KINDS = ("data", "data", "data", "byte", "bytes", "urgent", "end", "hand_over", "place", "nonsense", "cut", "pause")


def drawn(rng):
    """Parts of what one connection sends, with a pause after each."""
    sent, part = 0, frames.PREFACE
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
        elif kind == "nonsense":
            part += frames.frame(rng.randrange(256), rng.randbytes(rng.choice((0, 1, 8, 100))),
                                 rng.choice((None, number(rng, 24))))
        elif kind == "cut":
            part += rng.randbytes(rng.randint(1, 3))
        else:
            yield part
            part = b""
    yield part
