"""The loads of the lab's benchmark, and their transports from node a to node b."""
import itertools
import json
import re
import signal
import subprocess
from collections import Counter, namedtuple

from expect import expect, wait_until
from kernel_smc import Change
from node import BUILD, ROOT

SETUP_CONNECTIONS = 20
HOLD_SECONDS = 120
REDIS_CLIENTS, REDIS_REQUESTS = 10, 2000
SEND_BYTES = 128 * 1024
# Programs that measure the device without any proxy: [program, its options, factor for its result].
DEVICE_TESTS = {"bulk": ["ib_write_bw", ["-s", "65536"], 1.0],
                # It reports half a round trip.
                "ping": ["ib_send_lat", ["-s", "64"], 2.0]}
HAPROXY = """global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
"""

Route = namedtuple("Route", "host load redis environment")


class Routes:
    """Servers on b, and pairs of proxies in front of them; they stay for the whole run."""

    TCP_PORTS = (7001, 7002)  # the load generator's server, redis
    SMC_PORTS = (7011, 7012)
    HAPROXY_PORTS = {"a": (7021, 7022), "b": (7031, 7032)}

    def __init__(self, stage, folder, settings):
        self.stage, self.a, self.b = stage, stage.a, stage.b
        self.folder = folder
        self.loadgen = folder / "loadgen"
        sources = sorted((ROOT / "tests/bench").glob("loadgen*.c"))
        subprocess.run(["cc", "-O2", "-o", self.loadgen, *sources, "-lpthread"], check=True)
        self.preload = {"LD_PRELOAD": str(BUILD / "tests/lab/libsmc_preload.so")}
        self.device_port = 18500
        self.serve(self.TCP_PORTS, None)
        self.serve(self.SMC_PORTS, self.preload)
        self.kernel = Change(stage.kernels["a"])
        self.most_open = Counter()
        self.numbers = itertools.count()
        self.by_name = {
            "direct": Route(self.b.address, *self.TCP_PORTS, None),
            "kernel": Route(self.b.address, *self.SMC_PORTS, self.preload),
            "haproxy": Route("127.0.0.1", *self.haproxy(), None),
            "fairlead": Route("127.0.0.1", *self.fairlead(settings), None)}

    def serve(self, ports, environment):
        how = {"environment": environment} if environment else {}
        self.b.start([self.loadgen, "server", "0.0.0.0", ports[0]], **how)
        self.b.start(["redis-server", "--port", ports[1], "--bind", "0.0.0.0", "--save", "",
                      "--protected-mode", "no"], **how)
        if environment:
            # No tool lists a listener of AF_SMC by its port, and the first connection is a warm-up.
            self.probe(self.b.address, ports, how)
        else:
            self.wait_listening(self.b, ports)

    def probe(self, host, ports, how):
        wait_until(lambda: "alive" in self.a.run([self.loadgen, "idle", host, ports[0], 1, 0],
                                                 check=False, timeout=200, **how),
                   "the server behind AF_SMC", 60)
        wait_until(lambda: "PONG" in self.a.run(["redis-cli", "-h", host, "-p", ports[1], "ping"],
                                                check=False, **how), "redis behind AF_SMC", 60)

    def wait_listening(self, node, ports):
        wait_until(lambda: all(f":{port} " in node.run(["ss", "-Hltn"]) for port in ports),
                   f"servers at {ports}", 60)

    def haproxy(self):
        """A pair; its ports on node a."""
        ways = {"a": [(port, f"{self.b.address}:{to}")
                      for port, to in zip(self.HAPROXY_PORTS["a"], self.HAPROXY_PORTS["b"])],
                "b": [(port, f"127.0.0.1:{to}")
                      for port, to in zip(self.HAPROXY_PORTS["b"], self.TCP_PORTS)]}
        for node in (self.b, self.a):
            lines = [f"listen l{port}\n  bind :{port}\n  server next {to}\n"
                     for port, to in ways[node.name]]
            node.write("/tmp/lab/haproxy.cfg", HAPROXY + "".join(lines))
            node.start(["haproxy", "-db", "-f", "/tmp/lab/haproxy.cfg"])
            self.wait_listening(node, self.HAPROXY_PORTS[node.name])
        return self.HAPROXY_PORTS["a"]

    def fairlead(self, settings):
        """The same for Fairlead, with default settings except these."""
        options = {"log": {"level": "info"}, **settings}
        self.ours, entries = [], []
        for to in self.TCP_PORTS:
            inbound, port = self.stage.inbound(self.b, to, options)
            outbound, entry = self.stage.outbound(self.a, self.b.address, port, options)
            self.ours += [inbound, outbound]
            entries.append(entry)
        return entries

    def sample(self, workload, target, seconds):
        if target == "device":
            return self.device(workload, seconds)
        route = self.by_name[target]
        how = {"environment": route.environment} if route.environment else {}
        if workload == "redis":
            said = self.a.run(["redis-benchmark", "-h", route.host, "-p", route.redis, "-c",
                               REDIS_CLIENTS, "-n", REDIS_REQUESTS, "-t", "get", "--csv"],
                              timeout=180, **how)
            return float(said.strip().splitlines()[-1].split(",")[1].strip('"'))
        if workload == "setup":
            return self.open_some(target)
        if workload == "setup_more":
            return self.open_more(target)
        # The 16th request earns SMC-R by default.
        crossing = ["talk", route.host, route.load, 40, seconds, 64]
        words = {"crossing": crossing, "crossing_tail": crossing,
                 "bulk": ["bulk", route.host, route.load, 1, seconds, SEND_BYTES],
                 "ping": ["pp", route.host, route.load, 64, seconds]}[workload]
        said = self.a.run([self.loadgen, *words], timeout=180, **how)
        result = json.loads(said.splitlines()[0])
        figure = {"bulk": "gbytes_per_s", "ping": "p50_us", "crossing": "slowest_p50_us",
                  "crossing_tail": "slowest_p99_us"}[workload]
        return result[figure] * (1e3 if workload == "bulk" else 1)

    def start_idle(self, target, connections, seconds):
        route = self.by_name[target]
        how = {"environment": route.environment} if route.environment else {}
        log = self.folder / f"idle.{next(self.numbers)}.log"
        log.unlink(missing_ok=True)  # before the guest has seen it
        words = [self.loadgen, "idle", route.host, route.load, connections, seconds]
        return self.a.start(words, log=log.name, **how), log

    def open_some(self, target):
        """Milliseconds a connection, opened one after the other; all stay open until the last has its answer."""
        process, log = self.start_idle(target, SETUP_CONNECTIONS, 0)
        expect(process.wait(180) == 0, f"{target}: {process.complaint()}")
        result = json.loads(log.read_text().splitlines()[0])
        expect(result["open"] == SETUP_CONNECTIONS, f"{target}: {result}")
        self.most_open[target] = max(self.most_open[target], SETUP_CONNECTIONS)
        return result["open_secs"] / SETUP_CONNECTIONS * 1e3

    def open_more(self, target):
        """The same while as many are open as were ever open at once, so that no buffer of an earlier one is free."""
        held = self.most_open[target]
        holder, log = self.start_idle(target, held, HOLD_SECONDS)
        wait_until(lambda: log.exists() and "\n" in log.read_text(), f"{held} connections of {target}", 120)
        expect(json.loads(log.read_text().splitlines()[0])["open"] == held, f"{target}: {log.read_text()}")
        took = self.open_some(target)
        self.most_open[target] = held + SETUP_CONNECTIONS
        holder.send_signal(signal.SIGUSR1)
        expect(holder.wait(60) == 0, f"{target}: {holder.complaint()}")
        return took

    def device(self, workload, seconds):
        program, options, factor = DEVICE_TESTS[workload]
        self.device_port += 1
        words = [program, "-d", "rxe0", "-x", "1", "-F", "-p", self.device_port, *options]
        words += ["-D", max(2, round(seconds)), "--report_gbits"] if workload == "bulk" else ["-n", 1000]
        server = self.b.start(words)
        self.wait_listening(self.b, [self.device_port])
        said = self.a.run([*words, self.b.address], timeout=120)
        server.wait(30)
        rows = [line.split() for line in said.splitlines() if re.match(r"^\s*(65536|64)\s", line)]
        expect(rows, f"{program} says no figure: {said[-500:]}")
        # Columns: bulk: bytes, iterations, peak, average (Gbit/s); latency: …, least, most, typical.
        return float(rows[-1][3]) * 125 if workload == "bulk" else float(rows[-1][4]) * factor

    def check(self):
        """Checks that connections used SMC-R where they should."""
        for proxy in self.ours[:2]:
            proxy.expect_smcr()
        for proxy in self.ours[2:]:
            proxy.expect_smcr(at_least=0)  # redis may have been left out
        counts = self.kernel.look()
        expect(counts["client_v2"] > 0 and not counts["reasons"], f"the kernel's client: {counts}")
