"""An example as users run it: its table, its last two lines, and that it leaves nothing behind.

    examples_test.py BUILD_DIRECTORY EXAMPLE
"""
import glob
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 600  # limit here, because other programs may use both processors
SKIPPED = 77
build_directory, name = "", ""


def start(build, *arguments):
    return subprocess.Popen(
        [sys.executable, "-B", ROOT / f"examples/{name}.py", "--build", build, "--short", "--seconds", str(SECONDS), *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def traces():
    return set(glob.glob("/tmp/fairlead-example-*") + glob.glob("/run/netns/fairlead-example-*"))


class ExampleTest(unittest.TestCase):
    def setUp(self):
        self.before = traces()

    def tearDown(self):
        self.assertEqual(traces() - self.before, set())

    def finish(self, process, begun=""):
        """Waits for the end; returns the lines of the output, of which `begun` was read before."""
        output = begun + process.communicate(timeout=SECONDS + 20)[0]
        print(output, flush=True)
        if process.returncode == SKIPPED:
            self.assertIn(f"example {name}: skipped: ", output)
            self.skipTest(output.splitlines()[-1])
        return output.splitlines()

    def test_ends_with_the_verdict_and_the_advice(self):
        process = start(build_directory)
        lines = self.finish(process)
        self.assertEqual(process.returncode, 0)
        found = re.fullmatch(rf"example {name}: OK smcr_connections=(\d+) bytes=(\d+)", lines[-2])
        self.assertTrue(found, lines[-2])
        self.assertGreater(int(found[1]), 0)
        self.assertRegex(lines[-1], r"^Not worth it .*\.$")
        shares = [line for line in lines if re.search(r" \d+\.\d\d +\d+\.\d\d  \S+/s$", line)]
        self.assertGreaterEqual(len(shares), 3)
        for way, pod in (("direct", "client"), ("HAProxy", "server"), ("Fairlead", "client")):
            self.assertRegex("\n".join(lines), rf"(?m)^{way} +\S+, the address of the {pod}'s pod$")

    def test_says_what_failed(self):
        with tempfile.TemporaryDirectory() as nothing:
            process = start(nothing)
            lines = self.finish(process)
        self.assertRegex(lines[-1], f"^example {name}: FAILED .*fairlead-proxy")
        self.assertEqual(process.returncode, 1)

    def test_cleans_up_when_interrupted(self):
        process = start(build_directory)
        begun = ""
        for line in process.stdout:
            begun += line
            if line.startswith("[3/4]"):
                process.send_signal(signal.SIGINT)
                break
        self.assertEqual(self.finish(process, begun)[-1], f"example {name}: FAILED interrupted")
        self.assertEqual(process.returncode, 1)


if __name__ == "__main__":
    build_directory, name = sys.argv[1:3]
    program = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2)
    for test, reason in program.result.skipped:
        print(f"skipped: {test.id()}: {reason}")
    if not program.result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if program.result.skipped else 0)
