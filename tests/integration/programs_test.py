"""Unmodified programs through proxies: redis, nginx, PostgreSQL, iperf3."""
import hashlib
import json
import os
import pwd
import random
import shutil
import subprocess
import unittest
import urllib.request
from pathlib import Path

import peers
from free_port import free_port
from harness import ProxyTest, amount, join, main, seconds, wait_until

POSTGRES_FOLDERS = "/usr/lib/postgresql/*/bin"


def program(name):
    """The path of a program, or the test is skipped with a reason."""
    places = [str(place) for place in Path("/").glob(POSTGRES_FOLDERS[1:])]
    path = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", *places]))
    if path is None:
        raise unittest.SkipTest(f"{name} is not installed")
    return path


def answers(port):
    try:
        peers.connect(("127.0.0.1", port)).close()
        return True
    except ConnectionRefusedError:
        return False


class Programs(ProxyTest):
    def start_program(self, command_for, **how):
        """Runs the server that `command_for(port)` names; returns its address once it listens."""
        port = free_port()
        with open(self.folder / "program.log", "ab") as log:
            server = subprocess.Popen(command_for(port), stdin=subprocess.DEVNULL, stdout=log,
                                      stderr=log, **how)
        self.addCleanup(self.stop_program, server)
        wait_until(lambda: server.poll() is not None or answers(port), "the server to listen", 30)
        self.assertIsNone(server.poll(), (self.folder / "program.log").read_text())
        return "127.0.0.1", port

    def stop_program(self, server):
        server.terminate()
        try:
            server.wait(timeout=seconds(10))
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()

    def watch_run(self, command, timeout=120, **how):
        """Runs a client while fairleadctl must show its connections as SMC-R; returns its stdout."""
        with open(self.folder / "client.out", "w+b") as out:
            client = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                      stderr=subprocess.STDOUT, **how)
            self.addCleanup(client.kill)
            seen = set()

            def ended():
                ended_before = client.poll() is not None
                for proxy in (self.outbound, self.inbound):
                    for row in proxy.ctl("connections")["connections"]:
                        if row["state"] != "handshake":
                            seen.add((proxy.name, row["transport"]))
                return ended_before
            wait_until(ended, "the client to end", timeout)
            out.seek(0)
            text = out.read().decode()
        self.assertEqual(client.returncode, 0, text)
        self.assertEqual(seen, {("in", "smcr"), ("out", "smcr")})
        return text

    def test_redis(self):
        redis, benchmark = program("redis-server"), program("redis-benchmark")
        address = self.start_program(lambda port: [
            redis, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", self.folder])
        self.start_pair(address)
        host, port = self.entry
        text = self.watch_run([benchmark, "-h", host, "-p", str(port), "--csv", "-c", "20",
                               "-n", str(amount(3000))])
        tests = [line.split('","')[0].strip('"') for line in text.splitlines() if '","' in line]
        self.assertGreaterEqual(len(tests), 20, text)
        for name in ("PING_INLINE", "SET", "GET", "LRANGE_600 (first 600 elements)",
                     "MSET (10 keys)"):
            self.assertIn(name, tests)
        self.assert_smcr(at_least=20 * (len(tests) - 1))
        self.wait_idle()

    def test_nginx_download(self):
        nginx = program("nginx")
        content, size = self.folder / "content", amount(1 << 30)
        digest, block = hashlib.sha256(), random.Random(1).randbytes(1 << 20)
        with open(content, "wb") as out:
            for number in range(size >> 20):
                part = number.to_bytes(8, "big") + block[8:]
                out.write(part)
                digest.update(part)

        def command(port):
            (self.folder / "nginx.conf").write_text(
                f"daemon off; master_process off; pid {self.folder}/nginx.pid; user root;\n"
                f"error_log stderr; events {{ }} http {{ access_log off; sendfile on;\n"
                f"server {{ listen 127.0.0.1:{port}; root {self.folder}; }} }}\n")
            return [nginx, "-p", self.folder, "-c", self.folder / "nginx.conf"]
        self.start_pair(self.start_program(command))
        got, count = hashlib.sha256(), 0
        with urllib.request.urlopen(f"http://{join(self.entry)}/content", timeout=seconds(20)) as body:
            while part := body.read(1 << 20):
                if count == 0:
                    rows = self.outbound.ctl("connections")["connections"]
                    self.assertEqual([row["transport"] for row in rows], ["smcr"])
                got.update(part)
                count += len(part)
        self.assertEqual(count, size >> 20 << 20)
        self.assertEqual(got.hexdigest(), digest.hexdigest())
        self.assert_smcr()
        self.wait_idle()

    def test_postgresql(self):
        initdb, postgres, pgbench = program("initdb"), program("postgres"), program("pgbench")
        how = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                raise unittest.SkipTest("there is no user postgres to run PostgreSQL as") from None
            how = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = self.folder / "data"
        data.mkdir()
        if how:
            os.chown(data, how["user"], how["group"])
        how["cwd"] = data
        subprocess.run([initdb, "-D", data / "db", "-A", "trust", "-U", "bench", "--no-sync"],
                       check=True, capture_output=True, **how)
        address = self.start_program(lambda port: [
            postgres, "-D", data / "db", "-p", str(port), "-h", "127.0.0.1", "-c", "fsync=off",
            "-k", data, "-c", "shared_buffers=16MB"], **how)
        self.start_pair(address)
        host, port = self.entry
        base = [pgbench, "-h", host, "-p", str(port), "-U", "bench"]
        wait_until(lambda: subprocess.run([*base, "-i", "-q", "postgres"], capture_output=True,
                                          check=False).returncode == 0, "the database", 30)
        text = self.watch_run([*base, "-c", "8", "-T", "3", "-n", "postgres"])
        self.assertIn("number of failed transactions: 0", text)
        text = self.watch_run([*base, "-c", "4", "-T", "2", "-n", "-S", "-M", "prepared",
                               "postgres"])
        self.assertIn("number of failed transactions: 0", text)
        self.assert_smcr(at_least=12)

    def test_iperf3(self):
        """Two connections belong together here and carry data in opposite directions."""
        iperf = program("iperf3")
        address = self.start_program(lambda port: [iperf, "-s", "-p", str(port), "-B", "127.0.0.1"])
        self.start_pair(address)
        host, port = self.entry
        for direction in ([], ["-R"], ["--bidir"]):
            text = self.watch_run([iperf, "-c", host, "-p", str(port), "-J", "-t", "2", "-P", "2",
                                   *direction])
            end = json.loads(text)["end"]
            self.assertGreater(end["sum_received"]["bytes"], 1_000_000, direction)
        self.assert_smcr(at_least=3 * 3)


if __name__ == "__main__":
    main()
