"""Gets sources and packages from Debian, unpacked into a cache folder, never installed.

Environment:
  FAIRLEAD_SUITES_CACHE  the cache folder (default: fairlead/suites in the user's cache)
"""
import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

FETCH_SECONDS_MAX = 300
SOURCES_FOLDERS = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))


class Missing(Exception):
    """A requirement of a suite is not available here; the text names it and the reason."""


def program(name):
    """The path of a program; it may be outside of the path of ordinary users."""
    places = [os.environ["PATH"], "/usr/sbin", *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    path = shutil.which(name, path=os.pathsep.join(places))
    if path is None:
        raise Missing(f"{name} is not installed")
    return path


def cache_folder():
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead/suites"
    return Path(os.environ.get("FAIRLEAD_SUITES_CACHE") or default)


def installed_version(package):
    """The version of the source that an installed package was built from, or None."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${source:Version}", package],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None


def call(command, **options):
    try:
        return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=True, timeout=FETCH_SECONDS_MAX, **options).stdout
    except FileNotFoundError as error:
        raise Missing(f"{error.filename} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Missing(f"{command[0]} took more than {FETCH_SECONDS_MAX} s") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.startswith("E:")]
        raise Missing(f"{command[0]}: {(lines or error.stderr.splitlines() or ['failed'])[-1]}") from None


def with_sources(text):
    """One file of apt's sources, changed so that it names source packages too."""
    text = re.sub(r"(?m)^Types:.*$", "Types: deb-src", text)
    return re.sub(r"(?m)^deb ", "deb-src ", text)


class Apt:
    """apt-get with separate lists, because those of the machine usually lack sources."""

    def __init__(self, cache):
        self.cache = cache
        self.updated = False
        lists, parts = cache / "apt/lists", cache / "apt/parts"
        self.options = ["-q", "-o", "Dir::Etc::SourceList=/dev/null", "-o", f"Dir::Etc::SourceParts={parts}",
                        "-o", f"Dir::State::Lists={lists}", "-o", "APT::Sandbox::User=root",
                        "-o", "Acquire::Retries=2"]

    def update(self):
        """Runs once, and only if something must be fetched."""
        if self.updated:
            return
        parts = self.cache / "apt/parts"
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
        (self.cache / "apt/lists/partial").mkdir(parents=True, exist_ok=True)
        for place in SOURCES_FOLDERS:
            for path in [place] if place.is_file() else sorted(place.glob("*")):
                # Only Debian's own, because keys of others may be missing and nothing of theirs is needed.
                if path.suffix in (".list", ".sources") and "debian.org" in path.read_text():
                    (parts / path.name).write_text(with_sources(path.read_text()))
        call(["apt-get", *self.options, "-o", "APT::Update::Error-Mode=any", "update"])
        self.updated = True

    def source(self, package, version, folder):
        """Unpacks a source package into `folder`: the requested version, or else the newest one."""
        self.update()
        try:
            call(["apt-get", *self.options, "source", "--download-only", f"{package}={version}"], cwd=folder)
        except Missing:
            call(["apt-get", *self.options, "source", "--download-only", package], cwd=folder)
        description, = folder.glob("*.dsc")
        call(["dpkg-source", "-x", description.name, "tree"], cwd=folder)


def fetched(name, fill):
    """The folder `name` of the cache; `fill(folder)` creates its contents if they are missing."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / name).exists():
            coming = cache / f"{name}.coming"
            shutil.rmtree(coming, ignore_errors=True)
            coming.mkdir()
            try:
                fill(coming)
                coming.rename(cache / name)
            finally:
                shutil.rmtree(coming, ignore_errors=True)
    return cache / name


def source(package, installed):
    """The unpacked source of `package`, of the version that the package `installed` has here."""
    version = installed_version(installed)
    if version is None:
        raise Missing(f"the package {installed} is not installed")
    name = f"{package}-{re.sub('[^A-Za-z0-9.+-]', '_', version)}"
    return fetched(name, lambda folder: Apt(cache_folder()).source(package, version, folder)) / "tree"


def unpacked(package, installed):
    """The unpacked contents of a binary package, of the version that the package `installed` has here."""
    version = installed_version(installed)
    if version is None:
        raise Missing(f"the package {installed} is not installed")

    def fill(folder):
        try:
            call(["apt-get", "-q", "download", f"{package}={version}"], cwd=folder)
        except Missing:
            call(["apt-get", "-q", "download", package], cwd=folder)
        archive, = folder.glob("*.deb")
        call(["dpkg", "-x", archive.name, "tree"], cwd=folder)
    return fetched(f"{package}-{re.sub('[^A-Za-z0-9.+-]', '_', version)}", fill) / "tree"
