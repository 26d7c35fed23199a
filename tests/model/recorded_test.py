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

import frames_traces  # pylint: disable=wrong-import-position
import link_group_traces  # pylint: disable=wrong-import-position
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
                      ["seed 1", *LINK, "post 1 0 xyz"], ["seed 1", *LINK, "vanish 1"], ["seed 1", "connect 1 00 2 00"],
                      ["seed 1", "tcp 1 2"], ["seed 1", "read 1 0 5"], ["seed 1", "tcp 1 1 2 1000", "fin 1 2"],
                      ["seed 1", "tcp 1 1 2 1000", "framed 1 0 xyz"]):
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


def announced(kind, gid, number):
    """An Accept or a Confirm that names a queue pair."""
    data = bytearray(64)
    data[:5] = [*recorded.CLC_BEGIN, 0xd9, kind]
    data[16:32], data[38:41] = bytes.fromhex(gid), number.to_bytes(3, "big")
    return bytes(data)


def confirm_link(version, flags):
    data = bytearray(44)
    data[0], data[3], data[29], data[34] = version << 4 | recorded.CONFIRM_LINK, flags, 1, 3
    return data.hex()


class LinkGroups(unittest.TestCase):
    """Queue pair 1 is the client's, queue pair 2 the server's."""

    def trace(self, *events, version=2):
        recording = recorded.Recording()
        for line in (*LINK, "clc", f"post 2 0 {confirm_link(version, 0)}", "deliver 2 1", *events):
            if line == "clc":
                recording.clc(1, announced(recorded.CLC_ACCEPT, OTHER, 2))
                recording.clc(1, announced(recorded.CLC_CONFIRM, GID, 1))
            else:
                kind, key, *values = line.split()
                recorded.record(recording, kind, int(key), values)
        return list(link_group_traces.traces(recording))

    def test_a_group_has_its_messages(self):
        self.assertEqual(self.trace("take 1", f"post 1 0 {confirm_link(2, recorded.RESPONSE)}", "deliver 1 2", "take 2"),
                         [[(0, 0, 3, 0, 0), (1, 1, 1, 1, 1), (2, 0, 1, 1, 1), (1, 0, 1, 2, 1), (2, 1, 1, 2, 1)]])

    def test_a_link_closes_when_its_owner_handles_the_failure(self):
        self.assertEqual(self.trace("broken 1", "done 1 0 1", "take 1", "fail 1"),
                         [[(0, 0, 3, 0, 0), (1, 1, 1, 1, 1), (3, 0, 1, 0, 0)]])
        self.assertEqual(self.trace("broken 1", "take 1", "done 1 0 1", "fail 1"),
                         [[(0, 0, 3, 0, 0), (1, 1, 1, 1, 1), (2, 0, 1, 1, 1), (3, 0, 1, 0, 0)]])

    def test_a_group_of_version_1_is_left_out(self):
        self.assertEqual(self.trace("take 1", version=0), [])


class Frames(unittest.TestCase):
    def trace(self, *events):
        (_, recording), = recorded.simulated(["seed 1", "tcp 0 1 2 1000", "tcp 1 1 2 1000", *events])
        return list(frames_traces.traces(recording))

    def test_a_frame_is_taken_when_its_last_byte_is_read(self):
        self.assertEqual(self.trace("framed 1 0 fa1ead010100000161", "read 1 1 8", "framed 1 1 03", "framed 1 1 000000",
                                    "read 1 1 1", "read 1 0 4"),
                         [[(1, 0, 1, 0, 1), (1, 1, 3, 0, 0), (2, 1, 1, 0, 1), (2, 0, 3, 0, 0)]])

    def test_a_hand_over_is_taken_where_it_is_answered(self):
        self.assertEqual(self.trace("framed 1 0 fa1ead01040000080000000000000000", "read 1 1 16", "framed 1 1 0100000161",
                                    "framed 1 1 040000080000000000000001", "close 1 0 1 0"),
                         [[(1, 0, 4, 0, 0), (1, 1, 1, 0, 1), (2, 1, 4, 0, 0), (1, 1, 4, 1, 0), (7, 0, 0, 0, 0)]])


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
