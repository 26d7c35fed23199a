"""Redis' own test suite against an external server. Also those units that start their own servers and connect them to
each other: replication."""
import contextlib
import re
import shutil

from free_port import free_port
from sources import program, source
from suite_base import FAILED, PASSED, RACE_OF_CONNECTIONS, WHOLE, Suite, log_of, run_logged, server

UNIT_SECONDS_MAX = 600
COLOUR = re.compile(r"\x1b\[[\d;]*m")
RESULT = re.compile(r"^\[(ok|err|exception|timeout)\]: (.*)$", re.MULTILINE)
TIME_TAKEN = re.compile(r" \(\d+ ms\)$")
PLACE_OF_ERROR = re.compile(r" in tests/\S+\.tcl$")
# Of the units that start servers of their own.
OWN_SERVERS = ("integration/replication-2", "integration/replication-3", "integration/replication-4",
               "integration/psync2-reg", "integration/block-repl", "unit/wait")


class Redis(Suite):
    name = "redis"
    excerpt = ("unit/pubsub", "unit/multi", "unit/quit", "unit/tracking")

    known = (("unit/pubsub", "PUBLISH/SUBSCRIBE after UNSUBSCRIBE without arguments", RACE_OF_CONNECTIONS),)

    def prepare(self):
        self.redis = program("redis-server")
        program("tclsh")
        self.source = source("redis", "redis-server")

    def units(self):
        text = (self.source / "tests/test_helper.tcl").read_text()
        names = re.search(r"set ::all_tests \{(.*?)\}", text, re.DOTALL).group(1).split()
        # Units with their own servers never connect to the external one.
        return [name for name in names if name in OWN_SERVERS or not self.needs_own_servers(name)]

    def needs_own_servers(self, name):
        text = (self.source / f"tests/{name}.tcl").read_text()
        starts = re.findall(r"^(?:start_server|start_cluster|tags) .*$", text, re.MULTILINE)
        return not starts or all("external:skip" in line for line in starts)

    def tree(self, folder):
        """A copy for the run: the suite writes beside its sources and needs the programs in src."""
        tree = folder / "redis"
        if not tree.exists():
            shutil.copytree(self.source / "tests", tree / "tests")
            shutil.copy(self.source / "runtest", tree / "runtest")
            (tree / "src").mkdir()
            for name in ("redis-server", "redis-cli", "redis-benchmark"):
                (tree / "src" / name).symlink_to(program(name))
        return tree

    def run(self, units, folder):
        tree = self.tree(folder)
        for unit in units:
            if unit in OWN_SERVERS:
                where, running = ["--clients", "1"], contextlib.nullcontext()
            else:
                where, running = self.external(folder)
            log = log_of(folder, unit)
            with running:
                code = run_logged(["./runtest", *where, "--tags", "-slow", "--single", unit], log,
                                  UNIT_SECONDS_MAX, cwd=tree)
            yield {unit: self.checks(log.read_text(errors="replace"), code)}

    def external(self, folder):
        """(the options that name the external server, the server to start)."""
        port = free_port()
        command = [self.redis, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder,
                   "--enable-debug-command", "yes", "--enable-protected-configs", "yes",
                   "--enable-module-command", "yes"]
        return ["--host", "127.0.0.1", "--port", port], server(command, port, folder / "redis-server.log")

    @staticmethod
    def checks(text, code):
        checks = {}
        for word, name in RESULT.findall(COLOUR.sub("", text)):
            name = PLACE_OF_ERROR.sub("", TIME_TAKEN.sub("", name.strip()))
            # Some run in loops, as often as time allows.
            checks[name] = PASSED if word == "ok" and checks.get(name) != FAILED else FAILED
        return {**checks, WHOLE: PASSED if code == 0 else FAILED} if checks or code != 0 else {}
