"""The console of programs that boot guests: progress with times, and cleanup after a signal."""
import signal
import time

SKIPPED = 77  # exit code: it cannot run here
BEGUN = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - BEGUN:6.1f}] {text}", flush=True)


def _end(number, _):
    raise SystemExit(128 + number)


def end_on_signals():
    """Ends guests together with the program that booted them."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
