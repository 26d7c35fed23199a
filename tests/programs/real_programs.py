"""Unmodified programs with their own clients: each returns what it found. All addresses are of the loopback."""
import contextlib
import hashlib
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from judgement import Findings

HOST = "127.0.0.1"
START_SECONDS = 60
MIB = 1 << 20
LISTENING = "0A"  # in /proc/net/tcp
WRK_SCRIPT = """
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("found requests=%d errors=%d p999_us=%d max_us=%d\\n", summary.requests,
           errors.connect + errors.read + errors.write + errors.status + errors.timeout, latency:percentile(99.9), latency.max))
end
"""
NGINX = """
worker_processes 1; daemon off; user root; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 2048; }}
http {{
  access_log off; keepalive_requests 1000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
  scgi_temp_path {folder};
  server {{ listen {host}:8080; root {folder}/www; }}
  server {{ listen {host}:8081 http2; root {folder}/www; }}
}}
"""


class Failure(Exception):
    """A program said or did something else than expected."""


def found(pattern, text):
    match = re.search(pattern, text, re.M)
    if not match:
        raise Failure(f"no {pattern!r} in: {text[-800:]}")
    return match


class Program:
    """One server and its client. Subclasses say which programs they need, start the server and run the client."""
    name = ""
    needs = ()
    port = 0

    def __init__(self, folder, short):
        self.folder, self.short = folder, short
        self.server = None

    def missing(self):
        path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
        return [name for name in self.needs if shutil.which(name, path=path) is None]

    def amount(self, full):
        return max(1, full // 20) if self.short else full

    def start(self):
        """Starts the server; returns when it listens."""

    def measure(self):
        """Findings, without losses."""
        raise NotImplementedError

    def spawn(self, command, **options):
        log = open(self.folder / f"{self.name}.log", "ab")  # pylint: disable=consider-using-with
        self.server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        log.close()
        self.wait_for(self.listens)

    def listens(self):
        """Without a connection: that would be the first one of the measurement."""
        tables = [Path(f"/proc/self/net/{name}").read_text(encoding="ascii").splitlines()[1:] for name in ("tcp", "tcp6")]
        sockets = [line.split() for table in tables for line in table]
        return any(fields[3] == LISTENING and fields[1].endswith(f":{self.port:04X}") for fields in sockets)

    def wait_for(self, holds):
        deadline = time.monotonic() + START_SECONDS
        while not holds():
            if self.server is not None and self.server.poll() is not None:
                raise Failure(f"the server ended: {(self.folder / f'{self.name}.log').read_text()[-800:]}")
            if time.monotonic() > deadline:
                raise Failure(f"the server does not listen after {START_SECONDS} s")
            time.sleep(0.05)

    def run(self, command, seconds=300):
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)
        if done.returncode != 0:
            raise Failure(f"{command[0]} ended with {done.returncode}: {done.stdout[-800:]}")
        return done.stdout

    def stop(self):
        if self.server is None:
            return
        self.server.terminate()
        try:
            self.server.wait(20)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()


class Iperf3(Program):
    name, needs, port = "iperf3", ("iperf3",), 5201
    streams, reverse = 1, False

    def start(self):
        self.spawn(["iperf3", "-s", "-B", HOST, "-p", str(self.port)])

    def measure(self):
        each = max(1, self.amount(4096) // self.streams)
        words = ["iperf3", "-c", HOST, "-p", self.port, "-J", "-n", each * self.streams * MIB, "-P", self.streams]
        report = json.loads(self.run(words + (["-R"] if self.reverse else [])))
        if "error" in report:
            raise Failure(f"iperf3: {report['error']}")
        end = report["end"]
        rates = [stream["receiver"]["bits_per_second"] for stream in end["streams"]]
        return Findings({"streams": len(rates), "all sent": end["sum_sent"]["bytes"] >= each * self.streams * MIB},
                        0, end["sum_received"]["bits_per_second"] / 8 / MIB, "MiB/s")


class Iperf3Back(Iperf3):
    name, streams, reverse = "iperf3-R-P8", 8, True


class Nginx(Program):
    def start(self):
        www = self.folder / "www"
        www.mkdir(exist_ok=True)
        (www / "small").write_bytes(b"s" * 1000)
        (www / "large").write_bytes(hashlib.sha256(b"large").digest() * 8192)  # 256 KiB
        for path in (self.folder, www):
            path.chmod(0o755)
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(folder=self.folder, host=HOST))
        self.spawn(["nginx", "-c", str(config)])


class Wrk(Nginx):
    name, needs, port = "wrk", ("nginx", "wrk"), 8080

    def measure(self):
        script = self.folder / "wrk.lua"
        script.write_text(WRK_SCRIPT)
        seconds = 1 if self.short else 20
        words = ["wrk", "-t", "1", "-c", "16", "-d", f"{seconds}s", "--timeout", "30s", "-s", script, f"http://{HOST}:8080/small"]
        said = found(r"^found requests=(\d+) errors=(\d+) p999_us=(\d+)", self.run(words))
        return Findings({"served": int(said[1]) > 0}, int(said[2]), int(said[1]) / seconds, "requests/s", int(said[3]) / 1e6)


class H2load(Nginx):
    name, needs, port = "h2load", ("nginx", "h2load"), 8081

    def measure(self):
        requests = self.amount(40_000)
        said = self.run(["h2load", "-n", requests, "-c", "8", "-m", "10", f"http://{HOST}:8081/large"])
        counts = found(r"^requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", said)
        rate = float(found(r"^finished in [^,]+, ([\d.]+) req/s", said)[1])
        size = int(found(r"\((\d+)\) data", said)[1])
        return Findings({"succeeded": int(counts[1]), "bytes": size}, sum(map(int, counts.groups()[1:])), rate, "requests/s")


class ApacheBench(Nginx):
    """The server closes first."""
    name, needs, port = "ab", ("nginx", "ab"), 8080

    def measure(self):
        requests = self.amount(40_000)
        said = self.run(["ab", "-q", "-n", requests, "-c", "32", f"http://{HOST}:8080/small"])
        tail = int(found(r"^ +99% +(\d+)", said)[1])
        return Findings({"complete": int(found(r"^Complete requests: +(\d+)", said)[1])},
                        int(found(r"^Failed requests: +(\d+)", said)[1]),
                        float(found(r"^Requests per second: +([\d.]+)", said)[1]), "connections/s", tail / 1000)


class Sysbench(Program):
    """MariaDB by TCP. One thread, so that the tables are the same afterwards."""
    name, needs, port = "sysbench", ("sysbench", "mariadbd", "mariadb-install-db", "mariadb"), 3306

    def start(self):
        data = self.folder / "mysql"
        user = pwd.getpwnam("mysql")
        data.mkdir()
        os.chown(data, user.pw_uid, user.pw_gid)
        self.folder.chmod(0o755)
        self.run(["mariadb-install-db", f"--datadir={data}", "--user=mysql", "--auth-root-authentication-method=normal",
                  "--skip-test-db"])
        self.spawn(["mariadbd", "--no-defaults", f"--datadir={data}", "--user=mysql", f"--bind-address={HOST}",
                    f"--port={self.port}", f"--socket={data}/socket", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"])
        self.sql("CREATE DATABASE bank; CREATE USER bank@'127.0.0.1'; GRANT ALL ON bank.* TO bank@'127.0.0.1'")

    def sql(self, statement):
        return self.run(["mariadb", "--no-defaults", f"--socket={self.folder}/mysql/socket", "-u", "root", "-BN", "-e", statement])

    def measure(self):
        words = ["sysbench", "oltp_read_write", "--db-driver=mysql", f"--mysql-host={HOST}", f"--mysql-port={self.port}",
                 "--mysql-user=bank", "--mysql-db=bank", "--tables=2", "--table-size=2000", "--rand-seed=7", "--threads=1"]
        self.run([*words, "prepare"])
        events = self.amount(4000)
        said = self.run([*words, f"--events={events}", "--time=0", "--percentile=99", "run"])
        return Findings({"transactions": int(found(r"transactions: +(\d+)", said)[1]),
                         "tables": self.sql("CHECKSUM TABLE bank.sbtest1, bank.sbtest2").split()},
                        int(found(r"ignored errors: +(\d+)", said)[1]),
                        float(found(r"transactions: +\d+ +\(([\d.]+) per sec", said)[1]), "transactions/s",
                        float(found(r"99th percentile: +([\d.]+)", said)[1]) / 1000)


class RedisBenchmark(Program):
    name, needs, port = "redis-benchmark", ("redis-server", "redis-benchmark", "redis-cli"), 6379

    def start(self):
        self.spawn(["redis-server", "--bind", HOST, "--port", str(self.port), "--save", "", "--dir", str(self.folder)])

    def measure(self):
        requests = self.amount(400_000)
        said = self.run(["redis-benchmark", "-h", HOST, "-p", self.port, "-n", requests, "-c", "20", "-P", "4", "-t", "incr", "--csv"])
        rate, *_, longest = (float(word.strip('"')) for word in said.splitlines()[1].split(",")[1:])
        counted = self.run(["redis-cli", "-h", HOST, "-p", self.port, "GET", "counter:__rand_int__"]).strip()
        return Findings({"counter": counted}, 0, rate, "requests/s", longest / 1000)


class Grpc(Program):
    """Calls and a stream both ways, of Python's grpcio: tests/programs/grpc_peer.py."""
    name, needs, port = "grpc", (), 50051
    PEER = Path(__file__).with_name("grpc_peer.py")
    PYTHON = "/usr/bin/python3"  # whose packages are Debian's

    def missing(self):
        done = subprocess.run([self.PYTHON, "-c", "import grpc"], capture_output=True, check=False)
        return [] if done.returncode == 0 else ["python3-grpcio"]

    def start(self):
        self.spawn([self.PYTHON, "-B", str(self.PEER), "serve", f"{HOST}:{self.port}"])

    def measure(self):
        said = json.loads(self.run([self.PYTHON, "-B", self.PEER, "use", f"{HOST}:{self.port}", self.amount(10_000)]))
        return Findings({"digest": said["digest"], "cancelled": said["cancelled"]}, said["errors"], said["rate"], "calls/s",
                        said["p999"])


class Nats(Program):
    """A broker: one subscriber and one publisher, in its text protocol."""
    name, needs, port = "nats", ("nats-server",), 4222

    def start(self):
        self.spawn(["nats-server", "-a", HOST, "-p", str(self.port)])

    def measure(self):
        count, payload = self.amount(100_000), b"m" * 200
        begin = time.monotonic()
        with contextlib.ExitStack() as stack:
            reader, writer = (stack.enter_context(socket.create_connection((HOST, self.port), 60)) for _ in range(2))
            lines = stack.enter_context(reader.makefile("rb"))
            lines.readline()  # INFO
            reader.sendall(b'CONNECT {"verbose":false}\r\nSUB load 1\r\nPING\r\n')
            while lines.readline() != b"PONG\r\n":
                pass
            answers = stack.enter_context(writer.makefile("rb"))
            answers.readline()
            writer.sendall(b'CONNECT {"verbose":false}\r\n' + b"".join(
                b"PUB load %d\r\n%s%08d\r\n" % (len(payload) + 8, payload, number) for number in range(count)) + b"PING\r\n")
            digest, received = hashlib.sha256(), 0
            while received < count:
                head = lines.readline()
                if head.startswith(b"MSG load 1 "):
                    body = lines.read(int(head.split()[-1]) + 2)
                    digest.update(body)
                    received += 1
                elif head == b"PING\r\n":
                    reader.sendall(b"PONG\r\n")
                elif not head:
                    raise Failure(f"the broker ended after {received} of {count} messages")
        return Findings({"messages": received, "digest": digest.hexdigest()}, 0, count / (time.monotonic() - begin), "messages/s")


PROGRAMS = {program.name: program for program in (Iperf3, Iperf3Back, Wrk, H2load, ApacheBench, Sysbench, RedisBenchmark, Grpc, Nats)}
assert sys.version_info >= (3, 9)
