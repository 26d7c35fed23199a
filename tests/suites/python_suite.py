"""CPython's tests of its clients and servers: FTP, SMTP, POP3, IMAP, NNTP, HTTP, XML-RPC, TLS, asyncio."""
import os
import shutil
import xml.etree.ElementTree as xml
from pathlib import Path

from sources import Missing, fetched, installed_version, program, unpacked
from suite_base import (BUFFERED, EARLY_ACCEPT, FAILED, PASSED, RACE_WITH_RESET, SIDECAR_PORT, WHOLE,
                        Suite, log_of, run_logged)

UNIT_SECONDS_MAX = 600
# Without test_telnetlib, which connects and never sends a byte.
UNITS = """test_ftplib test_poplib test_imaplib test_smtplib test_smtpd test_nntplib test_httplib test_httpservers test_urllib2_localnet test_wsgiref test_xmlrpc test_docxmlrpc test_robotparser
test_socketserver test_asyncore test_asynchat test_ssl test_logging test_socket test_timeout test_selectors
test_asyncio.test_streams test_asyncio.test_events test_asyncio.test_server test_asyncio.test_sock_lowlevel
test_asyncio.test_sendfile test_asyncio.test_ssl test_asyncio.test_sslproto test_asyncio.test_buffered_proto
test_asyncio.test_selector_events"""
# This one needs permission to use the network, but uses only the loopback.
RESOURCES = {"test_socketserver": ["-u", "network"]}


class Python(Suite):
    name = "python"
    excerpt = ("test_poplib", "test_smtplib", "test_httplib", "test_asyncio.test_streams")

    known = (
        ("test_imaplib", "*.test_imap4_host_default_value", EARLY_ACCEPT),
        ("test_logging", "*.SocketHandlerTest.test_noserver", EARLY_ACCEPT),
        ("test_socket", "*.NetworkConnectionNoServer.*", EARLY_ACCEPT),
        ("test_socket", "*.SendfileUsingSendfileTest.testWithTimeoutTriggeredSend", BUFFERED),
        ("test_ssl", "*.test_connect_ex_error", EARLY_ACCEPT),
        ("test_ssl", "*.test_server_accept", SIDECAR_PORT),
        ("test_ssl", "*.TestPreHandshakeClose.test_preauth_data_to_tls_*", RACE_WITH_RESET),
        ("test_asyncio.test_events", "*.test_create_connection_local_addr_skip_different_family", EARLY_ACCEPT),
        ("test_asyncio.test_events", "*.test_server_close", EARLY_ACCEPT),
        ("test_asyncio.test_sendfile", "*.test_sendfile*_close_peer_in_the_middle_of_receiving", BUFFERED),
        ("test_asyncio.test_sock_lowlevel", "*.test_sock_client_fail", EARLY_ACCEPT),
        ("test_asyncio.test_sock_lowlevel", "*.test_sock_client_connect_racing", EARLY_ACCEPT),
        ("test_asyncio.test_sock_lowlevel", "*.test_cancel_sock_accept", EARLY_ACCEPT),
        ("test_asyncio.test_sock_lowlevel", "*.test_sock_accept", SIDECAR_PORT),
        ("test_asyncio.test_ssl", "*.test_connect_timeout_warning", EARLY_ACCEPT))

    def prepare(self):
        self.python = program("/usr/bin/python3")
        self.version = os.path.basename(os.path.realpath(self.python))
        package = f"lib{self.version}-stdlib"
        tests = unpacked(f"lib{self.version}-testsuite", package) / f"usr/lib/{self.version}/test"
        support = Path(f"/usr/lib/{self.version}/test")
        if not (support / "support").exists() and not (tests / "support").exists():
            raise Missing(f"{support} has no support for tests")

        def fill(folder):
            # One package "test" of two Debian packages, without installing the second.
            for part in (support, tests):
                if part.exists():
                    shutil.copytree(part, folder / "test", dirs_exist_ok=True)
        self.place = fetched(f"{self.version}-test-{installed_version(package)}", fill)

    def units(self):
        return UNITS.split()

    def run(self, units, folder):
        environment = {**os.environ, "PYTHONPATH": str(self.place), "PYTHONDONTWRITEBYTECODE": "1"}
        report = folder / "python.xml"
        for unit in units:
            report.unlink(missing_ok=True)
            # VSOCK is not TCP. Its tests do not end where the kernel has no transport for it.
            code = run_logged([self.python, "-m", "test", "-v", "--junit-xml", report, "--tempdir", folder,
                               "-i", "*VSOCK*", *RESOURCES.get(unit, []), unit],
                              log_of(folder, unit), UNIT_SECONDS_MAX, cwd=folder, env=environment)
            yield {unit: {**self.checks(report), WHOLE: PASSED if code == 0 else FAILED}}

    @staticmethod
    def checks(report):
        if not report.exists():
            return {}
        checks = {}
        for case in xml.parse(report).getroot().iter("testcase"):
            if not case.get("name") or case.find("skipped") is not None:
                continue
            bad = case.find("failure") is not None or case.find("error") is not None
            name = case.get("name").removeprefix("test.")
            checks[name] = FAILED if bad or checks.get(name) == FAILED else PASSED
        return checks
