"""litmus, the test suite of WebDAV servers, against lighttpd."""
import os
import re
import subprocess

from free_port import free_port
from sources import Missing, program
from suite_base import FAILED, PASSED, WHOLE, Suite, log_of, run_logged, server

UNIT_SECONDS_MAX = 120
RESULT = re.compile(r"^ ?\d+\. (\S+?)\.* (pass|FAIL|WARNING|SKIPPED)", re.MULTILINE)

CONFIGURATION = """server.port = {port}
server.bind = "127.0.0.1"
server.document-root = "{root}"
server.modules = ("mod_webdav")
server.errorlog = "{root}/../lighttpd.log"
webdav.activate = "enable"
webdav.sqlite-db-name = "{root}/../webdav.db"
"""


class WebDav(Suite):
    name = "webdav"
    excerpt = ("basic", "copymove", "props", "locks", "http")

    def prepare(self):
        self.litmus, self.lighttpd = program("litmus"), program("lighttpd")
        if not any(os.path.exists(f"/usr/lib/{place}lighttpd/mod_webdav.so")
                   for place in ("", "x86_64-linux-gnu/", "aarch64-linux-gnu/")):
            raise Missing("lighttpd's mod_webdav is not installed")

    def units(self):
        return ["basic", "copymove", "props", "locks", "http"]

    def run(self, units, folder):
        root = folder / "webdav"
        for number, unit in enumerate(units):
            port = free_port()
            place = root / str(number) / "files"
            place.mkdir(parents=True, exist_ok=True)
            path = place.parent / "lighttpd.conf"
            path.write_text(CONFIGURATION.format(port=port, root=place))
            log = log_of(folder, unit)
            with server([self.lighttpd, "-D", "-f", path], port, place.parent / "server.log"):
                code = run_logged([self.litmus, "-k", f"http://127.0.0.1:{port}/"], log, UNIT_SECONDS_MAX,
                                  cwd=place.parent, env={**os.environ, "TESTS": unit})
            text = log.read_text(errors="replace").replace("\r", "\n")
            checks = {name: PASSED if word == "pass" else FAILED for name, word in RESULT.findall(text)}
            subprocess.run(["rm", "-rf", place.parent], check=True)
            yield {unit: {**checks, WHOLE: PASSED if code == 0 else FAILED}}
