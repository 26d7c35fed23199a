"""One run from its set-up to its last line, whatever ends it."""
import os
import signal
import sys

from demo_pods import Unavailable
from demo_scene import say

SECONDS_TO_CLEAN_UP = 6
SKIPPED = 77  # exit code
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


class Interrupted(Exception):
    """Interrupted by a signal. Not a Failure, because some failures are expected and retried."""


def interrupted(number, _):
    raise Interrupted("it took too long" if number == signal.SIGALRM else "interrupted")


def perform(name, seconds, set_up, play, keep=lambda stage: False):
    """Prints "`name`: OK …" with the text that `play` returns for the stage of `set_up`, "FAILED …" or "skipped: …".
    Returns the exit code. Removes the stage, unless `keep` returns true after success."""
    for number in ENDS:
        signal.signal(number, interrupted)
    signal.alarm(max(5, seconds - SECONDS_TO_CLEAN_UP))
    stage, kept = None, False
    try:
        stage = set_up()
        last, status = f"{name}: OK {play(stage)}", 0
        kept = keep(stage)
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        last, status = "", 1
    except Unavailable as error:
        last, status = f"{name}: skipped: {' '.join(str(error).split())}", SKIPPED
    except Exception as error:  # the last line has to report every error
        last, status = f"{name}: FAILED {' '.join(str(error).split())}", 1
        if stage:
            stage.show_logs()
    finally:
        for number in ENDS:
            signal.signal(number, signal.SIG_IGN)
        if stage and not kept:
            stage.scene.close()
    say(f"\n{last}")
    return status
