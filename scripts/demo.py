#!/usr/bin/env python3
"""Shows Fairlead on this machine: Redis and nginx behind one proxy, their clients behind another.

    scripts/demo.py [--seconds 60] [--build DIR] [--loopback]

The last line is "demo: OK …", or "demo: FAILED …" with an exit code other than 0. Removes everything
that it created. With DEMO_KEEP=1 in the environment it leaves everything running, and prints commands
to inspect and to stop it.
"""
import argparse
import csv
import filecmp
import os
import sys
import textwrap
import time
from pathlib import Path

sys.dont_write_bytecode = True
from demo_comparison import DIRECT, FAIRLEAD, HAPROXY, haproxy_config, table  # noqa: E402
from demo_places import NGINX, REDIS, Loopback, Pods  # noqa: E402
from demo_pods import Unavailable  # noqa: E402
from demo_proxy import Proxy  # noqa: E402
from demo_run import perform  # noqa: E402
from demo_scene import Failure, Scene, expect, missing, say, shown, wait_for  # noqa: E402

MIB = 1 << 20
FILE_BYTES = 64 * MIB
SECONDS_MAX = 60
NGINX_CONFIG = """daemon off; pid {0}/nginx.pid; worker_processes 1; {2}
events {{ worker_connections 512; }}
http {{ access_log off; sendfile on;
  client_body_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path {0}; uwsgi_temp_path {0};
  scgi_temp_path {0}; server {{ listen {1}; root {0}/www; }} }}
"""


class Demo:
    def __init__(self, arguments, make_place):
        programs = arguments.build / "proxy"
        self.share = min(1.0, arguments.seconds / SECONDS_MAX)  # of the full load
        self.scene = Scene()
        try:
            self.place = make_place(self.scene, programs / "fairlead-proxy")
            self.proxies = {pod: Proxy(self.scene, pod, programs / "ctl" / "fairleadctl")
                            for pod in ("client", "server")}
            for proxy in self.proxies.values():
                self.place.start_proxy(proxy)
        except BaseException:
            self.scene.close()
            raise

    def in_client(self, *command):
        return self.scene.run(self.place.inside("client", command))

    def redis(self, program, place, *options):
        return [program, "-h", place[0], "-p", str(place[1]), *options]

    def url(self, way):
        return "http://%s:%d/data" % self.place.dial(NGINX, way)

    def start_programs(self):
        (self.scene.directory / "www").mkdir()
        (self.scene.directory / "www" / "data").write_bytes(os.urandom(FILE_BYTES))
        config = self.scene.write("nginx.conf", NGINX_CONFIG.format(
            self.scene.directory, "%s:%d" % self.place.listen("server", NGINX),
            "user root;" if os.geteuid() == 0 else ""))
        self.scene.start("nginx", self.place.inside("server", ["nginx", "-e", "stderr", "-c", config]))
        for pod in ("server", "stranger") if isinstance(self.place, Pods) else ("server",):
            host, port = self.place.listen(pod, REDIS)
            self.scene.start("redis-" + pod, self.place.inside(pod, [
                "redis-server", "--bind", host, "--port", str(port), "--save", "",
                "--protected-mode", "no"]))
        wait_for("Redis and nginx to start", lambda: self.bytes_survive(DIRECT))

    def bytes_survive(self, way):
        """Checks that bytes arrive unchanged; False while the servers do not answer yet."""
        copy = self.scene.directory / "copy"
        command = self.redis("redis-cli", self.place.dial(REDIS, way), "echo", "hello")
        try:
            answer = self.in_client(*command).strip()
            self.in_client("curl", "-sSf", "-o", copy, self.url(way))
        except Failure:
            return False
        expect(answer == "hello", f"{shown(command)}: {answer}")
        expect(filecmp.cmp(copy, self.scene.directory / "www" / "data", shallow=False),
               "the file that curl got is not the file that nginx has")
        return True

    def measure(self, way):
        """Requests and bytes per second of the same commands."""
        output = self.in_client(*self.redis(
            "redis-benchmark", self.place.dial(REDIS, way), "-t", "set,get", "-c", "32",
            "-d", "1024", "-n", str(int(40000 * self.share)), "--csv"))
        rates = {row[0]: float(row[1]) for row in csv.reader(output.splitlines())
                 if row and row[0] in ("SET", "GET")}
        files = max(1, int(12 * self.share))
        begin = time.monotonic()
        self.in_client("curl", "-sSf", "-o", "/dev/null", f"{self.url(way)}?[1-{files}]")
        speed = files * FILE_BYTES / MIB / (time.monotonic() - begin)
        return [("redis SET, 1 KiB, 32 clients", "requests/s", rates["SET"]),
                ("redis GET, 1 KiB, 32 clients", "requests/s", rates["GET"]),
                (f"curl, {files * FILE_BYTES // MIB} MiB from nginx", "MiB/s", speed)]

    def measure_haproxy(self):
        """As measure(), through an HAProxy in each pod, with its defaults; nothing where it is not installed."""
        if missing(["haproxy"]):
            say("HAProxy is not installed; its column is left out.\n")
            return None
        processes = []
        for pod in ("server", "client"):
            config = self.scene.write(f"haproxy-{pod}.cfg", haproxy_config(
                (program, *self.place.haproxy_hops(program)[pod]) for program in (REDIS, NGINX)))
            processes.append(self.scene.start(f"haproxy-{pod}", self.place.inside(pod, ["haproxy", "-db", "-f", config])))
        wait_for("HAProxy to start", lambda: self.bytes_survive(HAPROXY))
        rates = self.measure(HAPROXY)
        for process in processes:
            self.scene.stop(process)
        return rates

    def compare(self):
        results = {DIRECT: self.measure(DIRECT)}
        if (rates := self.measure_haproxy()) is not None:
            results[HAPROXY] = rates
        self.place.redirect()
        before = self.place.wire_bytes()
        expect(self.bytes_survive(FAIRLEAD), "no answer through the proxies")
        results[FAIRLEAD] = self.measure(FAIRLEAD)
        crossed = self.place.wire_bytes() - before
        say("\n".join(table(results)))
        carried = self.carried("bytes_total")
        if before:
            say(f"\nSMC-R carried {carried / MIB:,.0f} MiB. The network between the pods saw"
                f" {crossed / MIB:.1f} MiB of them.")
        expect(crossed < carried / 10, f"{crossed} bytes crossed the network")

    def carried(self, metric):
        return self.proxies["client"].total(metric, transport="smcr")

    def show_tables(self):
        load = self.scene.start("load", self.place.inside("client", self.redis(
            "redis-benchmark", self.place.dial(REDIS, FAIRLEAD), "-c", "3", "-n", "10000000")))
        wait_for("open connections", lambda: self.carried("connections_active") >= 3)
        for table in ("connections", "linkgroups"):
            self.show("client", table)
        self.scene.stop(load)
        wait_for("all connections to end", lambda: self.carried("connections_active") == 0)

    def show(self, pod, command):
        text = self.scene.run([*self.proxies[pod].ctl_command, command]).rstrip()
        say(f"\n{pod}$ fairleadctl {command}\n{text}")

    def fallbacks(self):
        return self.proxies[self.place.falls_back].total("fallback_total", reason="peer_not_injected")

    def meet_stranger(self):
        command = self.redis("redis-cli", self.place.stranger(), "ping")
        answer = self.in_client(*command).strip()
        say(f"client$ {shown(command)}\n{answer}")
        expect(answer == "PONG", f"{shown(command)}: {answer}")
        wait_for("the fallback to be counted", self.fallbacks)
        pod = self.place.falls_back
        lines = [line for line in self.proxies[pod].log.read_text().splitlines()
                 if "event=fallback" in line]
        expect(lines, "the log has no line about the fallback")
        say(f"\nThe proxy of the {pod} says in its log:\n" + textwrap.fill(
            lines[-1], 100, initial_indent="  ", subsequent_indent="    ",
            break_on_hyphens=False, break_long_words=False))
        self.show(pod, "fallbacks")
        self.show(pod, "why")

    def verdict(self):
        """The end of the last line, if the counters of the proxies are as expected."""
        count = self.carried("connections_total")
        expect(count > 0, "no connection was SMC-R")
        other = self.proxies["server"].total("connections_total", transport="smcr")
        expect(other == count, f"{count} SMC-R connections at the client, {other} at the server")
        total = sum(proxy.total("fallback_total") for proxy in self.proxies.values())
        expect(total == self.fallbacks(), f"{total} fallbacks, not all of them as expected")
        return (f"smcr_connections={count} tcp_fallbacks={total} "
                f"bytes={self.carried('bytes_total')}")

    def show_logs(self):
        for pod, proxy in self.proxies.items():
            lines = proxy.log.read_text().splitlines()[-5:]
            say("\n".join([f"\nlast words of the proxy of the {pod}:", *lines]))

    def explain_keeping(self):
        commands = [self.place.inside("client", self.redis("redis-cli", self.place.dial(REDIS, FAIRLEAD))),
                    [*self.proxies["client"].ctl_command, "connections"],
                    [*self.proxies["server"].ctl_command, "why"]]
        say("\nKept running: Redis at %s:%d, nginx at %s. Try:" % (
            *self.place.dial(REDIS, FAIRLEAD), self.url(FAIRLEAD)))
        say("\n".join("  " + " ".join(map(str, command)) for command in commands))
        say(f"Stop all of it:\n  sh {self.scene.keep()}")


def set_stage(arguments):
    if not arguments.loopback:
        try:
            return Demo(arguments, Pods)
        except Unavailable as error:
            say(f"No pods can be created here ({error}). A simpler demonstration follows.\n")
    return Demo(arguments, Loopback)


def play(demo):
    say(f"Fairlead on {demo.place.title}.")
    say("\n[1/4] Redis and nginx in the server pod, their clients in the client pod")
    demo.start_programs()
    say("\n[2/4] The same load without proxies, with HAProxy beside both, and with Fairlead beside both\n")
    demo.compare()
    say("\n[3/4] What the proxy knows while Redis is busy")
    demo.show_tables()
    say("\n[4/4] A peer without Fairlead: the connection stays TCP, and says why\n")
    demo.meet_stranger()
    return demo.verdict()


def keep(demo):
    if os.environ.get("DEMO_KEEP", "0") in ("", "0"):
        return False
    demo.explain_keeping()
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=SECONDS_MAX, help="the longest it may take")
    parser.add_argument("--build", type=Path, default=Path(__file__).parent.parent / "build/release")
    parser.add_argument("--loopback", action="store_true", help="no namespaces, even if permitted")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    return perform("demo", arguments.seconds, lambda: set_stage(arguments), play, keep)


if __name__ == "__main__":
    sys.exit(main())
