"""What a scenario expects, and waiting for it."""
import time

from node import LabError


class Failed(LabError):
    """An expectation that was not met."""


def expect(condition, what):
    if not condition:
        raise Failed(what)


def expect_equal(got, wanted, what):
    if got != wanted:
        raise Failed(f"{what}: {got!r}, not {wanted!r}")


def wait_until(condition, what, timeout=30):
    """Polls until `condition` gives something true, which is returned."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failed(f"waited {timeout} s in vain for {what}")
        time.sleep(0.1)


def expect_stream(sent, received, what):
    """The same number of bytes, the same bytes."""
    expect(isinstance(sent, list), f"{what}: sending ended in {sent}")
    expect_equal(received, sent, what)
