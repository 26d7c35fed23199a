"""Exit code, deadlines and waiting for all Python test programs.

Environment: FAIRLEAD_SLOWNESS, the factor by which the programs under test are slower than an optimised
build (default 1). Deadlines are multiplied by it, amounts of data divided.

A deadline only ends a test that hangs. It does not measure speed: other programs may use both processors.
"""
import os
import sys
import time
import unittest

SLOWNESS = float(os.environ.get("FAIRLEAD_SLOWNESS", "1"))
PATIENCE = 6  # factor of time compared with an idle machine
SKIPPED = 77  # exit code of a test program in which no test could run


def seconds(amount):
    """Deadline for this build and a busy machine, from the time on an idle machine."""
    return amount * SLOWNESS * PATIENCE


def wait_until(condition, what, timeout=10, failure=AssertionError):
    """Polls until `condition` returns a true value, and returns that value."""
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
