"""Memcached's own tests. Each starts its servers, and connects to them."""
import os
import re
import shutil

from sources import program, source
from suite_base import FAILED, PASSED, WHOLE, Suite, log_of, run_logged

from pathlib import Path

UNIT_SECONDS_MAX = 1200
RESULT = re.compile(r"^(ok|not ok) (\d+)(?: - (.*))?$", re.MULTILINE)
# Parts of a check's name that differ between two runs: a process id, random data.
CHANGES = re.compile(r"(?<=memcachetest)\d+|[A-Z]{30,}")
HERE = Path(__file__).resolve().parent
# They need a build with other options or a test of another project, or use only UDP or local sockets.
LEFT_OUT = re.compile(
    r"^(ssl_|issue_42|unixsocket|udp|whitespace|line-lengths|proxy|00-startup|daemonize|dash-M|shutdown)")


def checks_of(output):
    """By name, or by number without a name. Some units repeat a check as often as the timing of the server's threads
    requires. All checks of a name count as one, which has failed if one of them has."""
    checks = {}
    for word, number, name in RESULT.findall(output):
        check = CHANGES.sub("*", name) or number
        if checks.get(check) != FAILED:
            checks[check] = PASSED if word == "ok" else FAILED
    return checks


class Memcached(Suite):
    name = "memcached"
    excerpt = ("cas.t", "stats.t", "touch.t", "noreply.t", "incrdecr.t", "item_size_max.t")

    def prepare(self):
        self.memcached = program("memcached")
        program("perl")
        self.source = source("memcached", "memcached")

    def units(self):
        return sorted(path.name for path in (self.source / "t").glob("*.t") if not LEFT_OUT.match(path.name))

    def tree(self, folder):
        tree = folder / "memcached"
        if not tree.exists():
            shutil.copytree(self.source / "t", tree / "t")
            for name in ("memcached-debug", "memcached"):
                (tree / name).symlink_to(self.memcached)
            # The suite's own timedrun is a C program that ends tests after a timeout, which the harness does itself.
            # The option exists only in builds for tests.
            (tree / "timedrun").write_text(
                '#!/bin/sh\nshift\nexec $(echo "$@" | sed "s/ -o relaxed_privileges//")\n')
            os.chmod(tree / "timedrun", 0o755)
        return tree

    def run(self, units, folder):
        tree = self.tree(folder)
        for unit in units:
            log = log_of(folder, unit)
            code = run_logged(["perl", f"-I{HERE}", "-MListening", "-I", "t/lib", f"t/{unit}"], log,
                              UNIT_SECONDS_MAX, cwd=tree)
            checks = checks_of(log.read_text(errors="replace"))
            yield {unit: {**checks, WHOLE: PASSED if code == 0 else FAILED} if checks or code else {}}
