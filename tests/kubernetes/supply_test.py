#!/usr/bin/env python3
"""Goal: a release says what it is made of, and its signature proves where it is from. Method: docker/sbom.py on small
folders, scripts/sign.sh with keys of openssl. No image is built: supply_test.py <build folder>"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

import documented  # pylint: disable=wrong-import-position
from suite import main  # pylint: disable=wrong-import-position

BUILD = Path(sys.argv.pop(1)).resolve()
ROOT = Path(__file__).parents[2]
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Kernel headers hold declarations alone; those of tests and of Fairlead's own tools are in no program.
IN_NO_PROGRAM = {"linux", "googletest", "benchmark"}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, **options)


def sources_of(packages):
    """Names of the Debian source packages."""
    return set(run("dpkg-query", "-W", "-f", "${source:Package}\n", *sorted(packages)).stdout.split())


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="fairlead-supply-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)


class Sbom(Folder):
    def setUp(self):
        super().setUp()
        if shutil.which("dpkg-query") is None:
            self.skipTest("dpkg-query is missing: no Debian system")
        if os.uname().machine != "x86_64":
            self.skipTest("the libraries of the test are those of x86-64")
        self.root = self.folder / "root"
        (self.root / LIBRARIES).mkdir(parents=True)

    def add(self, name):
        shutil.copy(f"/{LIBRARIES}/{name}", self.root / LIBRARIES)

    def make(self, *words, architecture="amd64"):
        return run(ROOT / "docker/sbom.py", self.root, architecture, *words, env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})

    def sbom(self):
        return json.loads((self.root / "usr/share/doc/fairlead/sbom.spdx.json").read_text())

    def packages(self):
        return {package["name"]: package for package in self.sbom()["packages"]}

    def test_a_library_is_listed_with_package_version_source_and_licence(self):
        self.add("libstdc++.so.6")
        done = self.make()
        self.assertEqual(done.returncode, 0, done.stderr)
        package = self.packages()["libstdc++6"]
        version, source = run("dpkg-query", "-W", "-f", "${Version} ${source:Package}", "libstdc++6").stdout.split()
        self.assertEqual(package["versionInfo"], version)
        located = package["externalRefs"][0]["referenceLocator"]
        self.assertTrue(located.startswith(f"pkg:deb/debian/libstdc%2B%2B6@{version.replace('+', '%2B')}?arch=amd64&distro=debian-"), located)
        self.assertIn(f"upstream={source}", located)
        links = {(one["relationshipType"], one["relatedSpdxElement"]) for one in self.sbom()["relationships"]}
        self.assertIn(("DYNAMIC_LINK", package["SPDXID"]), links)
        self.assertIn(("STATIC_LINK", self.packages()["libspdlog-dev"]["SPDXID"]), links)
        self.assertIn(("DESCRIBES", "SPDXRef-fairlead"), links)
        self.assertIn("GCC", (self.root / "usr/share/doc/libstdc++6/copyright").read_text())
        self.assertIn(f"\nVersion: {version}\n", (self.root / "var/lib/dpkg/status.d/libstdc++6").read_text())
        self.assertIn("\nID=debian\n", "\n" + (self.root / "etc/os-release").read_text())
        self.assertEqual(self.sbom()["creationInfo"]["created"], "1970-01-02T00:00:00Z")

    def test_a_library_of_no_package_is_refused(self):
        self.add("libz.so.1")
        (self.root / LIBRARIES / "libstray.so.3").write_bytes(b"\x7fELF")
        done = self.make()
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"/{LIBRARIES}/libstray.so.3: no Debian package has this file", done.stderr)

    def test_an_archive_of_no_package_is_refused(self):
        build = self.folder / "build"
        build.mkdir()
        (build / "build.ninja").write_text(
            "build cni/fairlead-cni: LINK x.o\n  LINK_LIBRARIES = cni/libown.a  /usr/lib/x86_64-linux-gnu/libstray.a  -static\n")
        done = self.make("--build", build)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/usr/lib/x86_64-linux-gnu/libstray.a: no Debian package", done.stderr)

    def test_libraries_for_arm64_have_their_architecture(self):
        there = self.root / "usr/lib/aarch64-linux-gnu"
        there.mkdir()
        for name in ("libz.so.1", "ld-linux-aarch64.so.1"):
            (there / name).write_bytes(b"\x7fELF")
        done = self.make(architecture="arm64")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("zlib1g", "libc6"):
            self.assertIn("?arch=arm64&", self.packages()[name]["externalRefs"][0]["referenceLocator"])
            self.assertIn("\nArchitecture: arm64\n", (self.root / "var/lib/dpkg/status.d" / name).read_text())
        self.assertIn("?arch=all&", self.packages()["libexpected-dev"]["externalRefs"][0]["referenceLocator"])

    def test_the_programs_contain_nothing_else(self):
        """What their link takes from archives, and the sources of every header outside of Fairlead."""
        done = self.make("--build", BUILD)
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = self.packages()
        self.assertLessEqual({"libbpf-dev", "libelf-dev", "zlib1g-dev", "libc6-dev", "libstdc++-12-dev", "libgcc-12-dev"}, set(listed))
        headers = {line.strip() for line in run("ninja", "-C", BUILD, "-t", "deps").stdout.splitlines() if line.startswith("    /usr/")}
        self.assertGreater(len(headers), 100)
        owners = {line.split(":")[0] for line in run("dpkg-query", "-S", *sorted(headers)).stdout.splitlines()}
        libraries = {"libevent-dev", "libfmt-dev", "libibverbs-dev", "libnl-3-dev", "libprotobuf-dev", "libssl-dev", "libyaml-cpp-dev",
                     "prometheus-cpp-dev"}  # shared ones, which image_test.py finds in the image
        self.assertEqual(sources_of(owners) - sources_of(set(listed) - {"fairlead"} | libraries) - IN_NO_PROGRAM, set())


class Signature(Folder):
    def setUp(self):
        super().setUp()
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not installed")
        self.file = self.folder / "SHA256SUMS"
        self.file.write_text("0" * 64 + "  fairlead.tgz\n")

    def key(self, *options, name="release.key"):
        made = run("openssl", "genpkey", "-out", self.folder / name, *options)
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.folder / name

    def good_key(self):
        return self.key("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")

    def sign(self, key):
        return run(ROOT / "scripts/sign.sh", "sign", key, self.file)

    def verify(self):
        """By the command of the page."""
        command, = [one for one in documented.commands("docker/README.md", "Verifying a release") if "openssl" in one]
        return run("bash", "-c", command, cwd=self.folder)

    def test_the_documented_command_verifies(self):
        key = self.good_key()
        self.assertEqual(self.sign(key).returncode, 0)
        run("openssl", "pkey", "-in", key, "-pubout", "-out", self.folder / "fairlead.pub")
        done = self.verify()
        self.assertEqual((done.returncode, done.stdout), (0, "Verified OK\n"), done.stderr)
        # One line of base64 without an end, as cosign writes and reads it.
        self.assertRegex((self.folder / "SHA256SUMS.sig").read_text(), r"^[A-Za-z0-9+/]{90,}={0,2}$")
        self.file.write_text(self.file.read_text().replace("0", "1"))
        self.assertNotEqual(self.verify().returncode, 0)

    def test_the_signature_of_another_key_is_refused(self):
        self.assertEqual(self.sign(self.good_key()).returncode, 0)
        other = self.key("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", name="other.key")
        run("openssl", "pkey", "-in", other, "-pubout", "-out", self.folder / "fairlead.pub")
        self.assertNotEqual(self.verify().returncode, 0)

    def test_a_bad_key_is_refused_by_name_before_anything_is_built(self):
        curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384")
        public = self.folder / "public"
        run("openssl", "pkey", "-in", self.good_key(), "-pubout", "-out", public)
        text = self.folder / "text"
        text.write_text("no key\n")
        for key in (self.key(*curve, name="curve"), self.key("-algorithm", "ED25519", name="ed"), self.key("-algorithm", "RSA", name="rsa"),
                    self.key("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes128", "-pass", "pass:x", name="locked"),
                    public, text, self.folder, self.folder / "missing"):
            with self.subTest(key.name):
                done = run(ROOT / "scripts/release.sh", self.folder / "release", env={**os.environ, "RELEASE_KEY": str(key)})
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertIn(f'key "{key}"', done.stderr)
                self.assertIn("allowed: a PEM file with an ECDSA private key on P-256", done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertFalse((self.folder / "release").exists())
                self.assertEqual(self.sign(key).returncode, 64)
                self.assertFalse((self.folder / "SHA256SUMS.sig").exists())

    def test_wrong_words_are_named(self):
        for words, named in ((("seal",), 'unknown word "seal"'), (("sign", "key"), "sign needs"), (("check",), "check needs"),
                             (("sign", self.good_key(), self.folder / "nothing"), "nothing")):
            done = run(ROOT / "scripts/sign.sh", *words)
            self.assertEqual(done.returncode, 64)
            self.assertIn(named, done.stderr)


if __name__ == "__main__":
    main()
