"""What every program of tests in Python needs: its end, deadlines, and waiting.

Environment: FAIRLEAD_SLOWNESS, how much slower than an optimised build the programs under test are
(default 1): deadlines grow by it, amounts of data shrink by it.

A deadline only ends a test that hangs. It is no measure of speed: other programs may use both processors.
"""
import os
import sys
import time
import unittest

SLOWNESS = float(os.environ.get("FAIRLEAD_SLOWNESS", "1"))
PATIENCE = 6  # how much longer than on a quiet machine
SKIPPED = 77  # exit code of a test program of which nothing could run


def seconds(amount):
    """A deadline, for this build and a busy machine, from what a quiet one may take."""
    return amount * SLOWNESS * PATIENCE


def wait_until(condition, what, timeout=10, failure=AssertionError):
    """Polls until `condition` gives something true, which is returned."""
    deadline = time.monotonic() + seconds(timeout)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise failure(f"waited {seconds(timeout):g} s in vain for {what}")
        time.sleep(0.01)


def main():
    program = unittest.main(exit=False, verbosity=2, module="__main__")
    result = program.result
    for test, reason in result.skipped:
        print(f"skipped: {test.id()}: {reason}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun and len(result.skipped) == result.testsRun else 0)
