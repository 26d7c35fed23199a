#!/usr/bin/env python3
"""Goal: a release has the documented contents, and the same commit gives the same bytes. Method: scripts/release.sh
twice, with programs that are already built: release_test.py <build folder>"""
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

import containers

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import main  # pylint: disable=wrong-import-position

BUILD = Path(sys.argv.pop(1)).resolve()
ROOT = containers.ROOT
VERSION = re.search(r"project\(fairlead VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
ARCHIVE, CHART = f"fairlead-{VERSION}.oci.tar", f"fairlead-{VERSION}.tgz"
SBOM = f"fairlead-{VERSION}-amd64.spdx.json"


def release(*words):
    return subprocess.run([ROOT / "scripts/release.sh", *words], check=False, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=containers.BUILD_SECONDS_MAX)


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if why := containers.why_not():
            raise unittest.SkipTest(why)
        temporary = tempfile.TemporaryDirectory(prefix="fairlead-release-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folders = [Path(temporary.name, name) for name in ("first", "second")]
        for folder in cls.folders:
            done = release("--arch", "amd64", "--programs", BUILD, folder)
            if done.returncode != 0:
                raise AssertionError(f"release.sh: {done.stdout}{done.stderr}")

    def test_the_same_commit_gives_the_same_bytes(self):
        sums = [(folder / "SHA256SUMS").read_text() for folder in self.folders]
        self.assertEqual(sums[0], sums[1])

    def test_checksums_cover_every_file(self):
        folder = self.folders[0]
        listed = dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(set(listed), {ARCHIVE, CHART, SBOM, "NOTES.md"})
        self.assertEqual({path.name for path in folder.iterdir()}, {*listed, "SHA256SUMS"})
        for name, wanted in listed.items():
            self.assertEqual(hashlib.sha256((folder / name).read_bytes()).hexdigest(), wanted, name)

    def test_the_image_is_an_index_of_architectures(self):
        with tarfile.open(self.folders[0] / ARCHIVE) as archive:
            def blob(digest):
                return json.load(archive.extractfile("./blobs/" + digest.replace(":", "/")))
            (entry,) = json.load(archive.extractfile("./index.json"))["manifests"]
            self.assertEqual(entry["annotations"]["org.opencontainers.image.ref.name"], VERSION)
            (manifest,) = blob(entry["digest"])["manifests"]
            self.assertEqual(manifest["platform"], {"architecture": "amd64", "os": "linux"})
            config = blob(blob(manifest["digest"])["config"]["digest"])
        self.assertEqual(config["architecture"], "amd64")
        self.assertEqual(config["config"]["User"], "2201:2201")
        self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.version"], VERSION)

    def test_the_chart_is_whole(self):
        with tarfile.open(self.folders[0] / CHART) as archive:
            packed = {member.name for member in archive if member.isfile()}
        self.assertEqual(packed, {str(path.relative_to(ROOT / "helm")) for path in (ROOT / "helm/fairlead").rglob("*")
                                  if path.is_file()})

    def test_sbom_and_notes(self):
        sbom = json.loads((self.folders[0] / SBOM).read_text())
        self.assertIn("libibverbs1", {package["name"] for package in sbom["packages"]})
        self.assertTrue((self.folders[0] / "NOTES.md").read_text().startswith(f"# Fairlead {VERSION}\n\n"))

    def test_a_failed_release_leaves_its_folder_to_the_next(self):
        folder = self.folders[0].parent / "failed"
        for _ in range(2):
            done = release("--arch", "amd64", "--programs", "/nowhere", folder)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("/nowhere/proxy/fairlead-proxy", done.stderr)
            self.assertFalse(folder.exists())

    def test_wrong_words_are_refused_by_name(self):
        mine = self.folders[0].parent / "mine"
        mine.mkdir()
        (mine / "data").write_text("of somebody\n")
        for words, message in ((("--arch", "riscv64"), 'unknown architecture "riscv64"'),
                               (("--arch",), "--arch lacks its value"),
                               (("--archs", "amd64"), 'unknown option "--archs"'),
                               ((mine,), "neither empty nor an earlier release"),
                               ((mine / "data",), "neither empty nor an earlier release")):
            done = release(*words)
            self.assertEqual(done.returncode, 64)
            self.assertIn(message, done.stderr)
        self.assertEqual((mine / "data").read_text(), "of somebody\n")


if __name__ == "__main__":
    main()
