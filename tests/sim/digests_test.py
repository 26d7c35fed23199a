#!/usr/bin/env python3
"""Equal runs have equal digests, and a difference is found: digests_test.py <simulate>"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SIMULATE = sys.argv.pop(1)
SCRIPT = Path(__file__).resolve().parents[2] / "scripts/digests.py"


def digests(*arguments):
    done = subprocess.run([sys.executable, "-B", SCRIPT, "--seeds", "30", *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=900, check=False)
    return done.returncode, done.stdout + done.stderr


class Digests(unittest.TestCase):
    def test_compares_builds_and_saved_files(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = Path(folder) / "digests"
            self.assertEqual(digests("--save", saved, SIMULATE)[0], 0)
            code, text = digests(saved, SIMULATE)
            self.assertEqual(code, 0, text)
            self.assertIn("digests: OK", text)
            lines = saved.read_text().splitlines()
            seed = lines[4].split()[0]
            saved.write_text("\n".join([*lines[:4], f"{seed} 0123456789abcdef", *lines[5:]]) + "\n")
            code, text = digests(saved, SIMULATE)
            self.assertEqual((code, text), (1, f"digests: different: {seed}\n"))
            saved.write_text("\n".join(lines[:4] + lines[5:]) + "\n")
            self.assertEqual(digests(saved, SIMULATE), (1, f"digests: missing: {seed}\n"))

    def test_names_what_it_cannot_compare(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("is not built", digests(folder, SIMULATE)[1])
            self.assertIn("does not exist", digests(Path(folder) / "none", SIMULATE)[1])
            (Path(folder) / "text").write_text("no digest\n")
            self.assertIn("a line is not a seed and a digest", digests(Path(folder) / "text", SIMULATE)[1])


if __name__ == "__main__":
    unittest.main()
