#!/usr/bin/env python3
"""The commands of docs/tutorial.md for two proxies by hand, as on the page: tutorial_test.py BUILD_DIRECTORY

They run in their own network namespace, because the page has fixed ports. The answers must have the lines that the
page shows, apart from times. The same two proxies answer the commands of docs/operations.md and docs/configuration.md.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import documented  # noqa: E402 pylint: disable=wrong-import-position
from suite import main, seconds, wait_until  # noqa: E402 pylint: disable=wrong-import-position

PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
PROGRAMS = ("redis-server", "redis-cli", "unshare", "nsenter", "ip")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
BUILD = Path(sys.argv.pop(1)).resolve()


def files():
    """{name: text} of the configurations, each after the sentence that names it."""
    return dict(re.findall(r"use this `(\w+\.yaml)`:\n\n```yaml\n(.*?)```", PAGE, re.S))


def answers():
    """The lines that the page shows below a block of commands, a list for each block that has such lines."""
    return [[line[4:] for line in shown.splitlines()] for shown in re.findall(r"```sh\n[^`]*```\n\n((?:    [^\n]*\n)+)", PAGE)]


def shown_lines(page, command):
    """The answer that a page shows to a command, behind a prompt."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.search(rf"^    \$ {re.escape(command)}\n((?:    [^$\n][^\n]*\n)+)", text, re.M)[1].splitlines()


def steady(text):
    """Removes parts that differ from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"took [\d.]+[mu]?s", "took SOME", text)
    return [line.rstrip() for line in re.sub(r"connection c-\d+", "connection ID", text).splitlines() if line.strip()]


class Tutorial(unittest.TestCase):
    def setUp(self):
        missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
        if missing or os.geteuid() != 0:
            self.skipTest(f"not installed: {' '.join(missing)}" if missing else "needs root for a network namespace")
        temporary = tempfile.TemporaryDirectory(prefix="fairlead-tutorial-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        for name, text in files().items():
            (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / "build").mkdir()
        (self.folder / "build/release").symlink_to(BUILD)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
        self.environment["PATH"] = PATH
        holder = self.start(["unshare", "-n", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
                            stdout=subprocess.PIPE)
        self.addCleanup(holder.stdout.close)
        if holder.stdout.readline() != b"up\n":
            self.skipTest("no network namespace here")
        self.inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "sh", "-c"]

    def start(self, command, **options):
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, start_new_session=True, **options)
        self.addCleanup(self.stop, process)
        return process

    @staticmethod
    def stop(process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()

    def run_line(self, line):
        done = subprocess.run([*self.inside, line], cwd=self.folder, env=self.environment, timeout=seconds(20), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        print(f"$ {line}\n{done.stdout}", flush=True)
        return done

    def put_programs_into_the_path(self):
        self.environment["PATH"] = f"{BUILD}/proxy:{BUILD}/proxy/ctl:{PATH}"

    @staticmethod
    def is_ready(log):
        """Also at the broker, which may be slower than the proxy waits for it."""
        return "event=ready" in log and ("event=no_broker" not in log or "event=broker_found" in log)

    def start_all(self):
        """The first four commands of the page; returns the two that follow."""
        self.assertEqual(set(files()), {"server.yaml", "client.yaml"})
        *background, ping, why = documented.commands("docs/tutorial.md", "2. Two proxies by hand")
        self.assertEqual([line[-2:] for line in background], [" &"] * 4)
        for number, line in enumerate(background):
            with open(self.folder / f"{number}.log", "wb") as log:
                self.start([*self.inside, "exec " + line.removesuffix("&")], stdout=log, stderr=log)
        wait_until(lambda: all(self.is_ready((self.folder / f"{proxy}.log").read_text()) for proxy in (2, 3))
                   and self.run_line("redis-cli -p 6379 ping").returncode == 0, "Redis and both proxies", 30)
        without = re.search(r"event=no_option_program what=(.*?) hint=", (self.folder / "3.log").read_text())
        if without:
            self.skipTest(f"this machine permits no option program: {without[1]}")
        return [ping, why]

    def test_two_proxies_by_hand(self):
        by_smcr = self.start_all()
        by_tcp = documented.commands("docs/tutorial.md", "3. A connection that stays TCP")
        for lines, shown in zip((by_smcr, by_tcp), answers(), strict=True):
            done = [self.run_line(line) for line in lines]
            self.assertEqual([answer.returncode for answer in done], [0] * len(lines))
            self.assertEqual(steady("\n".join(answer.stdout for answer in done)), steady("\n".join(shown)))

    def test_questions_of_operations(self):
        """Each table has the columns that the page shows, each finding the words, and `doctor` the lines."""
        self.start_all()
        self.put_programs_into_the_path()
        self.start([*self.inside, "exec redis-cli -p 6380 subscribe news"], stdout=subprocess.DEVNULL)
        wait_until(lambda: "c-" in self.run_line("fairleadctl connections").stdout, "the connection of a subscriber", 30)
        for line in ("redis-cli -p 6380 -r 20 ping", "redis-cli -p 6381 ping"):
            self.assertEqual(self.run_line(line).returncode, 0)
        connections, groups, why, doctor = documented.commands("docs/operations.md", "Asking")
        for line in (connections, groups):
            self.assertEqual(self.run_line(line).stdout.splitlines()[0].split(), shown_lines("docs/operations.md", line)[0].split())
        told = steady(self.run_line(why.replace("198.18.44.6", "127.0.0.1:6379")).stdout)
        shown = [line[4:] for line in shown_lines("docs/operations.md", why)]
        self.assertEqual(told, steady("\n".join(shown).replace("198.18.44.6", "127.0.0.1")))
        checked = [line.split()[1] for line in self.run_line(doctor).stdout.splitlines()]
        named = [line.split()[1] for line in shown_lines("docs/operations.md", doctor) if len(line.split()) > 1]
        self.assertEqual([name for name in checked if name in named], named)

    def test_ways_to_set_a_value(self):
        """The commands of docs/configuration.md start a proxy with the level `debug`."""
        self.put_programs_into_the_path()
        (self.folder / "proxy.yaml").write_text(files()["client.yaml"], encoding="utf-8")
        for line in documented.commands("docs/configuration.md", "Where values come from"):
            process = self.start([*self.inside, line])
            wait_until(lambda: self.run_line("fairleadctl log-level").stdout == "debug\n", line, 30)
            self.stop(process)

    def test_mistakes_are_reported_as_shown(self):
        """docs/configuration.md shows the mistakes of the file below."""
        (line,) = documented.commands("docs/configuration.md", "Mistakes")
        lines = ["listeners:", "  - {name: a, direction: outbound, mode: static}", "", "", "", "smc:", "  max_links: 9",
                 "  ueid: [A]"]
        (self.folder / "bad.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.put_programs_into_the_path()
        done = self.run_line(line)
        self.assertEqual(done.returncode, 64)
        for shown in shown_lines("docs/configuration.md", line):
            self.assertIn(shown.strip().removesuffix("…").rstrip(), done.stdout)


if __name__ == "__main__":
    main()
