"""With an invalid configuration a proxy names the place and the allowed values, binds nothing and exits with 64."""
import os
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import ProxyTest, listener, main, programs, seconds
from free_port import free_port

LISTENERS = """listeners:
  - name: in
    direction: inbound
    mode: static
    listen: 127.0.0.1:{port}
    upstream: 127.0.0.1:9
"""
ADMIN = "admin: {listen: \"127.0.0.1:0\", socket: \"\"}\n"


class Configuration(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fairlead-")
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "proxy.yaml"

    def run_proxy(self, *arguments, environment=None):
        return subprocess.run([programs() / "fairlead-proxy", *arguments], capture_output=True,
                              text=True, timeout=seconds(10), check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})

    def run_with(self, text, *arguments, environment=None):
        self.file.write_text(text)
        return self.run_proxy("-c", self.file, *arguments, environment=environment)

    def assert_refused(self, result, *words, line=None):
        self.assertEqual(result.returncode, 64, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        if line is not None:
            self.assertIn(f"{self.file}:{line}", result.stderr)
        self.assertNotIn("event=listening", result.stderr)

    def test_bad_values_name_file_line_and_what_is_allowed(self):
        base = LISTENERS.format(port=0) + ADMIN
        line = base.count("\n") + 1
        for text, words in {
                "concurrency: many\n": ["concurrency", "64"],
                "concurrency: 65\n": ["concurrency", "64"],
                "concurency: 1\n": ["concurency"],
                "smc: {handshake_timeout: 6}\n": ["smc.handshake_timeout"],
                "smc: {handshake_timeout: 2m}\n": ["smc.handshake_timeout", "100ms", "1m"],
                "smc: {ueids: [UNDER_SCORE]}\n": ["smc.ueids"],
                "smc: {assume: [10.0.0.0/33]}\n": ["smc.assume"],
                "buffers: {size: 100KiB}\n": ["buffers.size", "16KiB"],
                "fallback: maybe\n": ["fallback", "allow", "deny"],
                "log: {level: loud}\n": ["log.level", "debug", "error"],
                "devices: {shm: {broker: no-at}}\n": ["devices.shm.broker"],
                "limits: {connections: 0}\n": ["limits.connections", "1000000"]}.items():
            with self.subTest(text):
                self.assert_refused(self.run_with(base + text), *words, line=line)

    def test_listeners(self):
        for text, words in {
                "listeners: []\n": ["listeners"],
                "log: {level: info}\n": ["listeners"],
                "listeners: [{name: a, direction: inbound, mode: static, listen: \"127.0.0.1:0\"}]\n":
                    ["upstream"],
                "listeners: [{name: a, direction: both, mode: static, listen: \"127.0.0.1:0\"}]\n":
                    ["direction", "inbound", "outbound"],
                "listeners: [{name: a, direction: inbound, mode: redirect, listen: \"localhost\"}]\n":
                    ["listen"]}.items():
            with self.subTest(text):
                self.assert_refused(self.run_with(text), *words)

    def test_every_error_is_told_at_once(self):
        text = LISTENERS.format(port=0) + "concurrency: x\nfallback: y\nunknown: z\n"
        result = self.run_with(text)
        self.assert_refused(result, "concurrency", "fallback", "unknown")
        self.assertGreaterEqual(result.stderr.count(str(self.file)), 3)

    def test_broken_yaml_and_missing_files(self):
        self.assert_refused(self.run_with("listeners: [\n  - name: {{\n"), str(self.file))
        self.assert_refused(self.run_proxy("-c", "/nonexistent/proxy.yaml"),
                            "/nonexistent/proxy.yaml")

    def test_nothing_is_bound(self):
        port = free_port()
        self.assert_refused(self.run_with(LISTENERS.format(port=port) + "concurrency: -1\n"))
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()

    def test_validate(self):
        self.file.write_text(LISTENERS.format(port=0))
        result = self.run_proxy("--validate", self.file)
        self.assertEqual((result.returncode, result.stdout), (0, f"{self.file}: valid\n"))
        self.file.write_text(LISTENERS.format(port=0) + "fallback: maybe\n")
        self.assert_refused(self.run_proxy("--validate", self.file), "fallback", line=7)

    def test_the_documented_file_is_valid(self):
        documented = Path(__file__).resolve().parents[2] / "config" / "proxy.yaml"
        result = self.run_proxy("--validate", documented)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_flags(self):
        self.assertEqual(self.run_proxy("--unknown").returncode, 64)
        self.assertEqual(self.run_proxy("surplus").returncode, 64)
        text = LISTENERS.format(port=0) + ADMIN
        self.assert_refused(self.run_with(text, "--set", "nonsense"), "nonsense")
        self.assert_refused(self.run_with(text, "--set", "fallback=maybe"), "fallback", "deny")
        help_text = self.run_proxy("--help")
        self.assertEqual(help_text.returncode, 0)
        self.assertIn("--validate", help_text.stdout)

    def test_version(self):
        result = self.run_proxy("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^\d+\.\d+\.\d+\n$")

    def test_a_bad_variable_is_named(self):
        result = self.run_with(LISTENERS.format(port=0) + ADMIN,
                               environment={"FAIRLEAD_FALLBACK": "maybe"})
        self.assert_refused(result, "FAIRLEAD_FALLBACK", "deny")

    def test_a_port_in_use_is_a_failure_to_start(self):
        with socket.create_server(("127.0.0.1", 0)) as sock:
            port = sock.getsockname()[1]
            result = self.run_with(LISTENERS.format(port=port) + ADMIN)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("event=listen_failed", result.stderr)
        self.assertIn(str(port), result.stderr)


class Precedence(ProxyTest):
    def test_flags_win_over_variables_and_these_over_the_file(self):
        listeners = [listener("in", "inbound", ("127.0.0.1", 9))]
        flags = ["--set", "drain.timeout=3s"]
        proxy = self.start("in", listeners, {"fallback": "allow", "concurrency": 1}, flags=flags,
                           environment={"FAIRLEAD_FALLBACK": "deny", "FAIRLEAD_DRAIN_TIMEOUT": "7s",
                                        "FAIRLEAD_CONCURRENCY": "2"})
        text = proxy.get("/config")
        self.assertIn("fallback: deny", text)
        self.assertIn("timeout: 3s", text)
        self.assertEqual(proxy.metrics().value("fairlead_workers", state="answering"), 2)


if __name__ == "__main__":
    main()
