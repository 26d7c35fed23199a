"""The console of programs that boot guests: progress with times, and cleanup after a signal."""
import signal
import time
import traceback

SKIPPED = 77  # exit code: it cannot run here
BEGUN = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - BEGUN:6.1f}] {text}", flush=True)


def play(function, stage, failures):
    """Runs a scenario or check, and says how it has ended: whether well, or by one of these `failures` or another error."""
    begun, word = time.monotonic(), "ok"
    try:
        function(stage)
    except failures as error:
        word = f"FAILED: {error}"
    except Exception:  # the others still run
        word = f"FAILED: {traceback.format_exc()}"
    say(f"{function.__name__} ({time.monotonic() - begun:.1f} s): {function.__doc__}: {word}")
    return word == "ok"


def _end(number, _):
    raise SystemExit(128 + number)


def end_on_signals():
    """Ends guests together with the program that booted them."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
