"""Expectations of scenarios, and waiting for them."""
import sys
from pathlib import Path

from node import LabError

sys.path.insert(1, str(Path(__file__).parents[1]))

import suite  # pylint: disable=wrong-import-position


class Failed(LabError):
    """An expectation that was not met."""


def expect(condition, what):
    if not condition:
        raise Failed(what)


def expect_equal(got, wanted, what):
    if got != wanted:
        raise Failed(f"{what}: {got!r}, not {wanted!r}")


def wait_until(condition, what, timeout=30):
    """Polls until `condition` returns a true value, and returns that value."""
    return suite.wait_until(condition, what, timeout, Failed)


def expect_stream(sent, received, what):
    """The same number of bytes, the same bytes."""
    expect(isinstance(sent, list), f"{what}: sending ended in {sent}")
    expect_equal(received, sent, what)
