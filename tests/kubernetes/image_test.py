#!/usr/bin/env python3
"""Contents and configuration of the image: image_test.py <build folder>"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import containers

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import main  # pylint: disable=wrong-import-position

BUILD = Path(sys.argv.pop(1))
PROGRAMS = {"fairlead-proxy", "fairlead-injector", "fairlead-cni", "fairlead-node", "fairleadctl"}
LABELS = {"title", "description", "version", "revision"}
MEGABYTES_MAX = 60
COMPILED_IN = {"nlohmann-json3-dev", "libspdlog-dev", "libbpf-dev", "libc6-dev"}
USER = 2201


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if why := containers.why_not():
            raise unittest.SkipTest(why)
        temporary = tempfile.TemporaryDirectory(prefix="fairlead-image-")
        cls.addClassCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        runtime = containers.Runtime(containers.image_folder(BUILD, folder / "images"), folder)
        cls.config = json.loads(runtime.podman("image", "inspect", containers.FAIRLEAD))[0]["Config"]
        cls.root = Path(runtime.podman("image", "mount", containers.FAIRLEAD).strip())
        cls.addClassCleanup(runtime.podman, "image", "unmount", containers.FAIRLEAD)
        cls.files = [path for path in cls.root.rglob("*") if path.is_file() and not path.is_symlink()]

    def test_is_small(self):
        megabytes = sum(path.stat().st_size for path in self.files) / 1e6
        print(f"image: {megabytes:.1f} MB in {len(self.files)} files (allowed: {MEGABYTES_MAX} MB)")
        self.assertLessEqual(megabytes, MEGABYTES_MAX)

    def test_has_every_program_and_no_shell(self):
        self.assertEqual({path.name for path in (self.root / "usr/local/bin").iterdir()}, PROGRAMS)
        others = [path for path in self.files if path.stat().st_mode & 0o111 and path.name not in PROGRAMS and
                  ".so" not in path.name]
        self.assertEqual(others, [])

    def test_every_program_starts_in_it(self):
        for program in PROGRAMS - {"fairlead-cni"}:  # which implements the CNI protocol
            done = subprocess.run(["chroot", self.root, f"/usr/local/bin/{program}", "--help"], check=False,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)

    def test_has_every_provider_of_rnics_with_what_it_loads(self):
        """libibverbs loads providers by name, so no program of the image reports a missing one."""
        loader = next(self.root.glob("usr/lib*/**/ld-linux*.so*"))
        providers = sorted(path.name for path in self.root.glob("usr/lib/*/libibverbs/*.so"))
        here = sorted(path.name for path in Path("/usr/lib").glob("*/libibverbs/*.so"))
        self.assertEqual(providers, here)
        self.assertTrue(any(name.startswith("libmlx5") for name in providers), providers)
        for path in self.root.glob("usr/lib/*/libibverbs/*.so"):
            done = subprocess.run(["chroot", self.root, "/" + str(loader.relative_to(self.root)), "--list",
                                   "/" + str(path.relative_to(self.root))],
                                  check=False, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, f"{path.name}: {done.stdout}{done.stderr}")
        print(f"providers: {len(providers)}")

    def test_runs_as_nobody_in_particular(self):
        self.assertEqual(self.config["User"], f"{USER}:{USER}")
        self.assertEqual((self.root / "run/fairlead").stat().st_uid, USER)
        grown = [path for path in self.files if path.stat().st_mode & 0o6002]
        self.assertEqual(grown, [], "set-user-id, set-group-id or writable by all")

    def test_labels_say_what_it_is(self):
        labels = {key.removeprefix("org.opencontainers.image."): value
                  for key, value in self.config["Labels"].items() if key.startswith("org.opencontainers.")}
        print("labels:", labels)
        self.assertLessEqual(LABELS, labels.keys())
        self.assertTrue(all(labels.values()))
        self.assertNotEqual(labels["revision"], "unknown")

    def test_sbom_has_the_package_of_every_library(self):
        sbom = json.loads((self.root / "usr/share/doc/fairlead/sbom.spdx.json").read_text())
        self.assertEqual(sbom["spdxVersion"], "SPDX-2.3")
        packages = {package["name"]: package for package in sbom["packages"]}
        self.assertEqual(len({package["SPDXID"] for package in sbom["packages"]}), len(sbom["packages"]))
        self.assertTrue(packages.pop("fairlead")["versionInfo"])
        for name, package in packages.items():
            self.assertTrue(package["versionInfo"], name)
            self.assertRegex(package["externalRefs"][0]["referenceLocator"], rf"^pkg:deb/debian/{name.replace('+', '%2B')}@")
            self.assertTrue((self.root / "usr/share/doc" / name / "copyright").stat().st_size, name)
        for library in (path.name for path in self.files if ".so" in path.name):
            owners = subprocess.run(["dpkg-query", "-S", f"*/{library}"], check=False, capture_output=True, text=True).stdout
            names = {line.split(":")[0] for line in owners.splitlines()}
            self.assertTrue(names & packages.keys(), f"{library} of {names}")
        self.assertLessEqual(COMPILED_IN, packages.keys())
        print(f"sbom: {len(packages)} packages")


if __name__ == "__main__":
    main()
