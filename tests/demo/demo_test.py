"""The demo as users run it: its last line, and that it leaves nothing behind.

    demo_test.py BUILD_DIRECTORY
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import documented  # noqa: E402 pylint: disable=wrong-import-position

DEMO = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "demo.py")
PROGRAMS = ("redis-server", "redis-cli", "redis-benchmark", "nginx", "curl")
SECONDS = 900  # limit for the demo here, because other programs may use both processors
build_directory = ""


def start(*arguments):
    environment = {name: value for name, value in os.environ.items() if name != "DEMO_KEEP"}
    return subprocess.Popen(
        [sys.executable, DEMO, "--seconds", str(SECONDS), *arguments], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def traces():
    return set(glob.glob("/tmp/fairlead-demo-*") + glob.glob("/run/netns/fairlead-demo-*"))


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.before = traces()

    def tearDown(self):
        self.assertEqual(traces() - self.before, set())

    def last_line(self, process):
        """Waits for the end."""
        output = process.communicate(timeout=SECONDS + 20)[0]
        print(output)
        self.output = output
        return output.splitlines()[-1]

    def expect_success(self, *arguments):
        process = start("--build", build_directory, *arguments)
        line = self.last_line(process)
        found = re.fullmatch(r"demo: OK smcr_connections=(\d+) tcp_fallbacks=(\d+) bytes=(\d+)", line)
        self.assertTrue(found, line)
        self.assertEqual(process.returncode, 0)
        self.assertGreater(int(found[1]), 0)
        self.assertEqual(int(found[2]), 1)
        self.assertGreater(int(found[3]), 64 << 20)

    def test_succeeds_in_the_best_place_there_is(self):
        self.expect_success()
        if "three network namespaces" not in self.output:
            return  # loopback has other addresses than the page
        _, queries = documented.groups("README.md", "Two commands")
        for command in queries + documented.commands("README.md", "When it is not SMC-R"):
            self.assertIn(f"client$ {command}\n", self.output)

    def test_succeeds_on_loopback(self):
        self.expect_success("--loopback")

    def test_says_what_failed(self):
        with tempfile.TemporaryDirectory() as nothing:
            process = start("--build", nothing)
            line = self.last_line(process)
        self.assertRegex(line, "demo: FAILED .*fairlead-proxy")
        self.assertEqual(process.returncode, 1)

    def test_cleans_up_when_interrupted(self):
        process = start("--build", build_directory)
        for line in process.stdout:
            if line.startswith("[2/4]"):
                process.send_signal(signal.SIGINT)
                break
        self.assertEqual(self.last_line(process), "demo: FAILED interrupted")
        self.assertEqual(process.returncode, 1)


if __name__ == "__main__":
    build_directory = sys.argv.pop()
    missing = [program for program in PROGRAMS
               if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")]
    if missing:
        print("skipped: not installed:", *missing)
        sys.exit(77)
    unittest.main()
