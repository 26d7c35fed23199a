#!/usr/bin/env python3
"""The commands of docs/tutorial.md for two proxies by hand, as on the page: tutorial_test.py BUILD_DIRECTORY

They run in their own network namespace, because the page has fixed ports. The answers must have the lines that the
page shows, apart from times.
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

from suite import main, seconds, wait_until  # noqa: E402 pylint: disable=wrong-import-position

PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
PROGRAMS = ("redis-server", "redis-cli", "unshare", "nsenter", "ip")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
BUILD = Path(sys.argv.pop(1)).resolve()


def files():
    """{name: text} of the configurations, each after the sentence that names it."""
    return dict(re.findall(r"use this `(\w+\.yaml)`:\n\n```yaml\n(.*?)```", PAGE, re.S))


def blocks():
    """(commands, shown lines) of each block of commands."""
    return [(commands.splitlines(), [line[4:] for line in shown.splitlines()])
            for commands, shown in re.findall(r"```sh\n(.*?)```\n((?:\n?(?:    [^\n]*\n)+)?)", PAGE, re.S)]


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
        self.addCleanup(process.wait)
        self.addCleanup(os.killpg, process.pid, signal.SIGTERM)
        return process

    def run_line(self, line):
        done = subprocess.run([*self.inside, line], cwd=self.folder, env=self.environment, timeout=seconds(20), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        print(f"$ {line}\n{done.stdout}", flush=True)
        return done

    def test_two_proxies_by_hand(self):
        self.assertEqual(set(files()), {"server.yaml", "client.yaml"})
        (background, nothing), *asked = blocks()
        self.assertEqual((len(background), nothing), (3, []))
        for number, line in enumerate(background):
            with open(self.folder / f"{number}.log", "wb") as log:
                self.start([*self.inside, "exec " + line.removesuffix("&")], stdout=log, stderr=log)
        wait_until(lambda: "event=ready" in (self.folder / "1.log").read_text()
                   and "event=ready" in (self.folder / "2.log").read_text()
                   and self.run_line("redis-cli -p 6379 ping").returncode == 0, "Redis and both proxies", 30)
        without = re.search(r"event=no_option_program what=(.*?) hint=", (self.folder / "2.log").read_text())
        if without:
            self.skipTest(f"this machine permits no option program: {without[1]}")
        self.assertEqual(len(asked), 2)
        for commands, shown in asked:
            answers = [self.run_line(line) for line in commands]
            self.assertEqual([answer.returncode for answer in answers], [0] * len(commands))
            self.assertEqual(steady("\n".join(answer.stdout for answer in answers)), steady("\n".join(shown)))


if __name__ == "__main__":
    main()
