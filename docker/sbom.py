#!/usr/bin/env python3
"""Lists what an image is made of: sbom.py ROOT ARCHITECTURE [--build FOLDER]

ROOT is the folder with the files of the image, ARCHITECTURE Debian's name of it. Each shared library below ROOT must be
from a Debian package of this machine, and so must each archive that the programs of the build folder were linked with. A
file of no package is an error. For arm64 the packages are those of this machine: the same Debian. Written are:

  usr/share/doc/fairlead/sbom.spdx.json   SPDX 2.3: each package with version, source package and kind of link
  usr/share/doc/PACKAGE/copyright         of each of these packages
  var/lib/dpkg/status.d/PACKAGE           what dpkg says about it, for scanners that look into images
  usr/lib/os-release                      of this Debian, for the same reason

SOURCE_DATE_EPOCH dates the SBOM. The same files give the same bytes. Exit codes: 0, or 1 with the reason.
"""
import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
LOADERS = {"ld-linux-aarch64.so.1": "ld-linux-x86-64.so.2"}
HERE = "amd64"
# No file of the image shows libraries that consist of headers, and those that a static program takes from the compiler.
HEADERS = ("libcli11-dev", "libexpected-dev", "libspdlog-dev", "nlohmann-json3-dev")
OF_STATIC_PROGRAMS = ("libc6-dev", "libgcc-12-dev", "libstdc++-12-dev")
FIELDS = ("Package", "Version", "source:Package", "source:Version", "Status", "Architecture")
SBOM = "usr/share/doc/fairlead/sbom.spdx.json"


class Unknown(Exception):
    """Something of the image that no package explains."""


def text_of(*command):
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    return done.stdout


def names_of(path, architecture):
    """The paths by which dpkg may list the file: packages still name some below /lib, which is a link to /usr/lib."""
    path = path.replace(TRIPLETS[architecture], TRIPLETS[HERE])
    for there, here in LOADERS.items():
        path = path.replace(there, here)
    plain = path.removeprefix("/usr")
    return {path, "/usr" + plain, plain, os.path.realpath(path), os.path.realpath(path).removeprefix("/usr")}


def owners_of(paths, architecture):
    """{path: package}; Unknown names the first path that is of no package."""
    wanted = {path: names_of(path, architecture) for path in paths}
    every = sorted(set().union(*wanted.values()))
    listed = {}
    for line in text_of("dpkg-query", "-S", *every).splitlines() if every else ():
        packages, _, path = line.partition(": ")
        if not packages.startswith("diversion by"):
            listed[path] = packages.split(",")[0].split(":")[0]
    owners = {}
    for path, names in wanted.items():
        found = {listed[name] for name in names if name in listed}
        if not found:
            raise Unknown(f"{path}: no Debian package has this file; allowed: libraries from packages")
        owners[path] = min(found)
    return owners


def libraries_of(root):
    return sorted("/" + str(path.relative_to(root)) for path in root.rglob("*")
                  if re.search(r"\.so(\.|$)", path.name) and path.is_file() and not path.parts[len(root.parts):][0] == "var")


def archives_of(build):
    """What the programs of a folder of CMake and Ninja are linked with statically: paths, and whether one is static."""
    linked, static, target = set(), False, ""
    for line in (build / "build.ninja").read_text().splitlines():
        if line.startswith("build "):
            target = line[len("build "):].split(":")[0]
        elif line.startswith("  LINK_LIBRARIES = ") and re.fullmatch(r"(.*/)?(fairlead-\w+|fairleadctl)", target):
            words = line.split()[2:]
            static = static or "-static" in words
            linked |= {word for word in words if word.startswith("/") and word.endswith(".a")}
    # Those of an architecture's own folder of libraries have its path in front.
    own = os.path.realpath(build)
    found = {re.sub(r"^/.*?(?=/usr/lib/)", "", path) for path in linked if not os.path.realpath(path).startswith(own + "/")}
    return sorted(found), static


def facts_of(package):
    row = text_of("dpkg-query", "-W", "-f", "\t".join(f"${{{field}}}" for field in FIELDS) + "\n", package).splitlines()
    if not row:
        raise Unknown(f"{package}: dpkg does not know this package; allowed: installed packages")
    facts = dict(zip(FIELDS, row[0].split("\t")))
    if not facts["Version"] or "installed" not in facts["Status"].split():
        raise Unknown(f"{package}: is not installed; allowed: installed packages")
    return facts


def debian():
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/usr/lib/os-release").read_text(), re.M))


def purl(facts, architecture):
    """As scanners expect it: with the release, and the source package where its name or version differs."""
    source = facts["source:Package"]
    if facts["source:Version"] != facts["Version"]:
        source += "@" + facts["source:Version"]
    qualifiers = {"arch": "all" if facts["Architecture"] == "all" else architecture, "distro": f"debian-{debian()['VERSION_ID']}"}
    if source != facts["Package"]:
        qualifiers["upstream"] = source
    version = urllib.parse.quote(facts["Version"], safe=".-~")
    return f"pkg:deb/debian/{facts['Package'].replace('+', '%2B')}@{version}?{urllib.parse.urlencode(qualifiers)}"


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def document(packages, programs, architecture):
    """packages: {name: (facts, kind)}, where kind is DYNAMIC_LINK or STATIC_LINK."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in programs)).hexdigest()[:32]
    moment = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", datetime.datetime.now().timestamp())),
                                             datetime.timezone.utc)
    own = {"SPDXID": "SPDXRef-fairlead", "name": "fairlead", "versionInfo": version_of_fairlead(), "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "primaryPackagePurpose": "CONTAINER"}
    listed = [{"SPDXID": spdx_id(name), "name": name, "versionInfo": facts["Version"], "downloadLocation": "NOASSERTION",
               "filesAnalyzed": False, "sourceInfo": f"built from {facts['source:Package']} {facts['source:Version']}",
               "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                 "referenceLocator": purl(facts, architecture)}]}
              for name, (facts, _) in packages.items()]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "fairlead",
            "documentNamespace": f"urn:fairlead:image:{digest}",
            "creationInfo": {"created": moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: docker/sbom.py"]},
            "packages": [own, *listed],
            "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]},
                              *({"spdxElementId": own["SPDXID"], "relationshipType": kind, "relatedSpdxElement": spdx_id(name)}
                                for name, (_, kind) in packages.items())]}


def version_of_fairlead():
    text = (Path(__file__).parents[1] / "CMakeLists.txt").read_text()
    return re.search(r"^project\(fairlead VERSION ([0-9.]+)", text, re.M)[1]


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o644)


def copyright_of(package):
    """Some packages have the folder of another one as theirs, by a link."""
    path = Path("/usr/share/doc", package, "copyright")
    if not path.is_file():
        raise Unknown(f"{package}: {path} is missing; allowed: packages with a copyright file "
                      "(a minimal system may leave them out by path-exclude in /etc/dpkg/dpkg.cfg.d)")
    return path.read_bytes()


def status_of(package, architecture):
    text = text_of("dpkg-query", "-s", package)
    return re.sub(rf"^Architecture: {HERE}$", f"Architecture: {architecture}", text, flags=re.M)


def describe(root, architecture, build=None):
    """Writes all files; returns the names of the packages."""
    kinds = {package: "STATIC_LINK" for package in HEADERS}
    if build is not None:
        archives, static = archives_of(build)
        kinds |= {package: "STATIC_LINK" for package in owners_of(archives, architecture).values()}
        kinds |= {package: "STATIC_LINK" for package in OF_STATIC_PROGRAMS if static}
    kinds |= {package: "DYNAMIC_LINK" for package in owners_of(libraries_of(root), architecture).values()}
    packages = {name: (facts_of(name), kind) for name, kind in sorted(kinds.items())}
    programs = sorted((root / "usr/local/bin").iterdir()) if (root / "usr/local/bin").is_dir() else []
    for name in packages:
        write(root / "usr/share/doc" / name / "copyright", copyright_of(name))
        write(root / "var/lib/dpkg/status.d" / name, status_of(name, architecture).encode())
    write(root / "usr/lib/os-release", Path("/usr/lib/os-release").read_bytes())
    (root / "etc").mkdir(exist_ok=True)
    release = root / "etc/os-release"
    release.unlink(missing_ok=True)
    release.symlink_to("../usr/lib/os-release")
    write(root / SBOM, (json.dumps(document(packages, programs, architecture), indent=1) + "\n").encode())
    return sorted(packages)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("architecture", choices=sorted(TRIPLETS))
    parser.add_argument("--build", type=Path, help="folder of CMake and Ninja with the programs")
    wanted = parser.parse_args()
    if shutil.which("dpkg-query") is None:
        sys.exit("sbom: dpkg-query is missing; allowed: a Debian system")
    try:
        names = describe(wanted.root.resolve(), wanted.architecture, wanted.build)
    except Unknown as error:
        sys.exit(f"sbom: {error}")
    print(f"sbom: {len(names)} packages")


if __name__ == "__main__":
    main()
