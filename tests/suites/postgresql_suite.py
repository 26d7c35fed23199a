"""PostgreSQL's regression tests, by its own driver pg_regress, in its own parallel schedule."""
import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

from free_port import free_port
from sources import Missing, fetched, installed_version, source, unpacked
from suite_base import FAILED, PASSED, Suite, run_logged, server

SCHEDULE_SECONDS_MAX = 1800
LINE = re.compile(r"^(?:test|    ) +(\S+) +\.\.\. (ok|FAILED|failed \(ignored\)).*$", re.MULTILINE)
EXCERPT_GROUPS = 7  # of the schedule, from its beginning: later ones use the tables of earlier ones


class PostgreSql(Suite):
    name = "postgresql"

    def prepare(self):
        # Debian's, because the sources are Debian's.
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
        if not found:
            raise Missing("postgresql is not installed")
        self.postgres = found[-1]
        self.major = self.postgres.parts[-3]
        package = f"postgresql-{self.major}"
        self.source = source(package, package) / "src/test/regress"
        self.driver = self.postgres.parents[1] / "lib/pgxs/src/test/regress/pg_regress"
        if not self.driver.exists():
            raise Missing(f"{self.driver} is not installed")
        try:
            self.user = pwd.getpwnam("postgres")
        except KeyError:
            raise Missing("there is no user postgres to run PostgreSQL as") from None
        self.library = self.build_library(package)

    def build_library(self, package):
        """The functions in C that the tests load into the server."""
        headers = unpacked(f"postgresql-server-dev-{self.major}", package)
        include = headers / f"usr/include/postgresql/{self.major}/server"

        def fill(folder):
            command = ["cc", "-shared", "-fPIC", "-O1", "-w", "-I", include, "-I", self.source, "-o",
                       folder / "regress.so", self.source / "regress.c"]
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Missing(f"regress.so cannot be built: {done.stderr.strip().splitlines()[-1:]}")
        return fetched(f"regress-so-{installed_version(package)}", fill) / "regress.so"

    def groups(self):
        """The schedule: tests of one group run at once."""
        lines = (self.source / "parallel_schedule").read_text().splitlines()
        return [line.removeprefix("test:").split() for line in lines if line.startswith("test:")]

    def units(self):
        return [name for group in self.groups() for name in group]

    @property
    def excerpt(self):
        return [name for group in self.groups()[:EXCERPT_GROUPS] for name in group]

    def run(self, units, folder):
        """Prerequisites of `units` run together with them, so all are reported together."""
        how = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        home = folder / "postgresql"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(self.source, home / "regress")
        shutil.copy(self.library, home / "regress/regress.so")
        wanted, needed = set(units), []
        for number, group in enumerate(self.groups(), 1):
            needed.append(group)
            wanted -= set(group)
            if not wanted:
                break
        (home / "regress/schedule").write_text("".join(f"test: {' '.join(group)}\n" for group in needed))
        for path in [home, *home.rglob("*")]:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
        how["cwd"] = home / "regress"
        subprocess.run([self.postgres.parent / "initdb", "-D", home / "data", "-A", "trust", "-U", "postgres",
                        "--no-sync", "--no-locale", "-E", "UTF8"], check=True, capture_output=True, **how)
        port = free_port()
        command = [self.postgres, "-D", home / "data", "-p", port, "-h", "127.0.0.1", "-k", "", "-c", "fsync=off",
                   "-c", "max_prepared_transactions=2", "-c", "shared_buffers=64MB"]
        log = folder / "pg_regress.log"
        with server(command, port, folder / "postgres.log", "ready to accept connections", **how):
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
            run_logged([self.driver, "--host=127.0.0.1", f"--port={port}", "--user=postgres", "--dlpath=.",
                        "--schedule=schedule", "--inputdir=.", "--outputdir=.", "--bindir=" +
                        str(self.postgres.parent)], log, SCHEDULE_SECONDS_MAX, env=environment, **how)
        found = {name: {"output": PASSED if word == "ok" else FAILED}
                 for name, word in LINE.findall(log.read_text(errors="replace"))}
        yield {unit: found.get(unit, {"output": FAILED}) for unit in units}
