#!/usr/bin/env python3
"""What is no recording or no trace gets an error that says so; a small recording becomes its trace."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(1, str(FOLDER))
sys.path.insert(2, str(FOLDER.parent))

import recorded  # pylint: disable=wrong-import-position
import run  # pylint: disable=wrong-import-position
from suite import main  # pylint: disable=wrong-import-position

GID, OTHER = "00" * 15 + "01", "00" * 15 + "02"
LINK = [f"connect 1 {OTHER} 2 {GID} 1", f"connect 2 {GID} 1 {OTHER} 2"]


def failure_of(lines):
    try:
        list(recorded.simulated(lines))
    except recorded.NoRecording as error:
        return str(error)
    return None


class Recordings(unittest.TestCase):
    def test_lines_that_are_no_events_are_refused(self):
        for lines in ([], ["nonsense"], [""], ["post 1 2 fe"], ["seed one"], ["seed 1", "take"], ["seed 1", "vanish 3"],
                      ["seed 1", *LINK, "post 1 0 xyz"], ["seed 1", *LINK, "vanish 1"], ["seed 1", "connect 1 00 2 00"]):
            with self.subTest(lines=lines):
                self.assertRegex(failure_of(lines) or "", "not an event|first line is not a seed|queue pair 3")

    def test_events_that_cannot_be_are_refused(self):
        for lines, why in ((["seed 1", "take 3"], "queue pair 3"), (["seed 1", *LINK, "take 1"], "has not arrived"),
                           (["seed 1", *LINK, "deliver 1 2"], "was not posted")):
            with self.subTest(lines=lines):
                self.assertRegex(failure_of(lines) or "", why)

    def test_an_empty_run_is_one(self):
        self.assertEqual([seed for seed, _ in recorded.simulated(["seed 7", "seed 8"])], [7, 8])

    def test_files_that_are_no_captures_are_refused(self):
        for data in (b"", b"\xd4\xc3\xb2\xa1", bytes(100)):
            with self.subTest(data=data), self.assertRaises(recorded.NoRecording):
                recorded.captured([data])

    def test_a_capture_has_its_connections(self):
        (_, recording), = run.captured()
        self.assertEqual(len(recording.connections), len(run.CAPTURED))
        self.assertTrue(all(connection.writes for connection in recording.connections))


class Traces(unittest.TestCase):
    def setUp(self):
        if shutil.which("spin") is None:
            self.skipTest("spin is not installed; scripts/bootstrap.sh model")

    def test_a_file_that_is_no_trace_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            follower = run.Follower(FOLDER / "failover.pml", folder)
            for content in ("", "nonsense\n", "0 0 16384 0\n", "0 0 16384 0 0\n1 0 x 0 0\n"):
                with self.subTest(content=content):
                    path = Path(folder) / "trace"
                    path.write_text(content, encoding="ascii")
                    done = subprocess.run([follower.pan, *run.FOLLOW], cwd=folder, capture_output=True, text=True, check=False,
                                          env={**os.environ, "TRACE_FILE": str(path)})
                    self.assertEqual(done.returncode, run.NO_TRACE)
                    self.assertIn(f"{path} is no trace", done.stdout)


if __name__ == "__main__":
    main()
