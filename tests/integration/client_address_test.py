"""Goal: accept(2) and getpeername(2) report the client's address to the application, on every connection that the
proxy opened for that client and on no other. Method: two pods as network namespaces. The application sends each
client the results of accept(2) and, at the end, of getpeername(2). A client knows its own address, also where it has
bound a second one of its pod. With a proxy in the client's pod the port is that of the proxy, and the proxy of the
server's pod reports it. Each path to an application is tested, over both families and transports."""
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import threading
import unittest
from pathlib import Path

import peers
from harness import listener, main, programs, wait_until
from pod_pair import CLIENT, CLIENT6, SERVER, SERVER6, Pods, is_local

CHURN = 10_000  # more than there are slots, so each is used again
THREADS = 8
LIVE = 60
SOURCE_BLOCK = range(0x7f800000, 0x80000000)  # 127.128.0.0/9
PORT_FIRST = 61440
IN_FRAMES = {"smc": {"defer_bytes": "64KiB"}}
SECOND, SECOND6 = "10.77.1.3", "fd77:1::3"  # more addresses of the client's pod


def plain(address):
    """Address and port as one value, IPv4-mapped as IPv4."""
    return address[0].removeprefix("::ffff:"), address[1]


class Application:
    """Sends each client the addresses that it saw, after the client has sent data."""

    def __init__(self, host):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            self.listener.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:
            self.listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.listener.bind((host, 0))
        self.listener.listen(1024)
        self.port = self.listener.getsockname()[1]
        for _ in range(THREADS):
            threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock, accepted = self.listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(OSError):
                sock.settimeout(60)
                if not sock.recv(1):
                    continue
                report = {"accept": accepted[:2], "getpeername": sock.getpeername()[:2]}
                sock.sendall(json.dumps(report).encode())

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def seen_by(sock):
    """Addresses that the application saw: (by accept, by getpeername)."""
    sock.sendall(b"?")
    return answer_to(sock)


def answer_to(sock):
    report = json.loads(peers.receive_all(sock))
    return tuple(report["accept"]), tuple(report["getpeername"])


class ClientAddress(Pods):
    def setUp(self):
        super().setUp()
        if os.environ.get("FAIRLEAD_VARIANT", "direct") != "direct":
            raise unittest.SkipTest("has variants of its own")

    def application(self, host):
        with self.namespace(self.names[1]):
            application = Application(host)
        self.addCleanup(application.close)
        return application

    def start_inbound(self, host="0.0.0.0", **options):
        self.redirect_of_server()
        self.start_server_proxy("redirect", host, options=options)
        if not options.get("client_address"):
            self.require_programs()

    def require_programs(self):
        for check in self.inbound.get_json("/doctor")["checks"]:
            if check["name"] == "client_address" and check["status"] != "ok":
                raise unittest.SkipTest(check["finding"])

    def connect(self, server, port, source=None):
        with self.namespace(self.names[0]):
            return peers.connect((server, port), source=source)

    def assert_shown(self, sock, as_mapped=False):
        own = sock.getsockname()[:2]
        if as_mapped:
            own = ("::ffff:" + own[0], own[1])
        self.assertEqual(seen_by(sock), (own, own))

    def results(self):
        samples = {}
        for name in ("shown", "off", "unavailable", "no_slot", "family", "refused"):
            samples[name] = self.inbound.metrics().value("fairlead_client_address_total", result=name)
        return {name: int(count) for name, count in samples.items() if count}

    def test_over_ipv4(self):
        self.start_inbound()
        application = self.application("0.0.0.0")
        with self.connect(SERVER, application.port) as sock:
            self.assertEqual(sock.getsockname()[0], CLIENT)
            rows = self.live_rows(1)
            self.assertEqual([row["client_address"] for row in rows], ["shown"])
            self.assert_shown(sock)
        self.assertEqual(self.results(), {"shown": 1})
        steps = self.inbound.get_json("/why")["decisions"][0]["steps"]
        self.assertIn("the application sees the client's address", steps)

    def test_client_that_is_reset_before_accept(self):
        """Its socket no longer has a port. A loopback address would look like a local process."""
        self.start_inbound()
        with self.namespace(self.names[1]):
            server = socket.create_server(("0.0.0.0", 0))
        self.addCleanup(server.close)
        sock = self.connect(SERVER, server.getsockname()[1])
        own = sock.getsockname()
        sock.sendall(b"last words")
        self.live_rows(1)
        peers.reset(sock)
        peers.wait_event(server, select.POLLIN, "the client to come")
        wait_until(lambda: self.inbound.get_json("/connections")["connections"] == [], "the reset")
        accepted, address = server.accept()
        accepted.close()
        self.assertEqual(address, own)

    def test_servers_bind_ports_of_the_sidecar(self):
        self.start_inbound(client_address="off")
        application = self.application("0.0.0.0")
        with self.connect(SERVER, application.port) as sock:
            with self.namespace(self.names[1]):
                _, port = plain(seen_by(sock)[0])
                with socket.create_server(("0.0.0.0", port)):
                    pass

    def live_rows(self, count):
        def rows():
            found = self.inbound.get_json("/connections")["connections"]
            return found if len(found) >= count and all(row["client_address"] for row in found) else []
        wait_until(rows, f"{count} connections at the proxy")
        return rows()

    def test_over_ipv6(self):
        self.start_inbound("[::]")
        application = self.application("::")
        with self.connect(SERVER6, application.port) as sock:
            self.assertEqual(sock.getsockname()[0], CLIENT6)
            self.assert_shown(sock)
        with self.connect(SERVER, application.port) as sock:
            self.assert_shown(sock, as_mapped=True)
        self.assertEqual(self.results(), {"shown": 2})

    def through_two_proxies(self, listen, server, second, inbound=None, **options):
        """Every other client binds a second address of its pod."""
        self.redirect_of_client()
        self.add_second_addresses()
        self.start_inbound(listen, **(inbound or {}))
        self.start_client_proxy(listen, options=options)
        application = self.application("::" if ":" in server else "0.0.0.0")
        socks = [self.connect(server, application.port, second if i % 2 else None) for i in range(LIVE)]
        try:
            rows = self.live_rows(LIVE)
            # All clients send before one waits, because the order in which the application accepts is unknown.
            for sock in socks:
                sock.sendall(b"?")
            seen = [answer_to(sock) for sock in socks]
            own = [plain(sock.getsockname())[0] for sock in socks]
        finally:
            for sock in socks:
                sock.close()
        self.assertEqual(own[1::2], [second] * (LIVE // 2))
        self.assertEqual([plain(accepted)[0] for accepted, _ in seen], own)
        at_proxy = {row["peer"] for row in rows}
        self.assertEqual(len(at_proxy), LIVE)
        self.assertEqual({accepted for accepted, _ in seen}, {named for _, named in seen})
        self.assertEqual({peers_text(accepted) for accepted, _ in seen}, at_proxy)

    def test_redirect_of_the_application_is_kept_alive(self):
        """conntrack forgets a half-closed connection after 60 s without a packet."""
        self.through_two_proxies("0.0.0.0", SERVER, SECOND)
        application = self.application("0.0.0.0")
        with self.connect(SERVER, application.port):
            self.live_rows(1)
            timers = subprocess.run(
                ["ip", "netns", "exec", self.names[0], "ss", "-tnoH", "state", "established", "sport", "=", ":4540"],
                capture_output=True, text=True, check=True).stdout
        self.assertRegex(timers, r"timer:\(keepalive,(1?\d|20)(\.\d+)?sec")

    def add_second_addresses(self):
        client, server = self.names
        self.inside(client, "ip", "address", "add", f"{SECOND}/24", "dev", "wire")
        # A deprecated address is not the source of a socket that binds none.
        self.inside(client, "ip", "address", "add", f"{SECOND6}/128", "dev", "wire", "nodad",
                    "preferred_lft", "0")
        wait_until(lambda: is_local(client, SECOND6), f"{SECOND6} in {client}")
        for address in (f"{SECOND}/32", f"{SECOND6}/128"):
            self.inside(server, "ip", "route", "add", address, "dev", "wire")

    def test_over_smcr_and_ipv4(self):
        self.through_two_proxies("0.0.0.0", SERVER, SECOND)
        self.assert_smcr(at_least=LIVE)

    def test_over_smcr_and_ipv6(self):
        self.through_two_proxies("[::]", SERVER6, SECOND6)
        self.assert_smcr(at_least=LIVE)

    def test_over_tcp_and_ipv4(self):
        self.through_two_proxies("0.0.0.0", SERVER, SECOND, smc={"enabled": False})
        self.assertEqual(self.outbound.metrics().connections("tcp"), LIVE)

    def test_over_tcp_and_ipv6(self):
        self.through_two_proxies("[::]", SERVER6, SECOND6, smc={"enabled": False})
        self.assertEqual(self.outbound.metrics().connections("tcp"), LIVE)

    def test_in_frames_and_ipv4(self):
        self.through_two_proxies("0.0.0.0", SERVER, SECOND, inbound=IN_FRAMES, **IN_FRAMES)
        self.wait_idle()
        self.assertEqual(self.outbound.metrics().connections("short"), LIVE)

    def test_in_frames_and_ipv6(self):
        self.through_two_proxies("[::]", SERVER6, SECOND6, inbound=IN_FRAMES, **IN_FRAMES)
        self.wait_idle()
        self.assertEqual(self.outbound.metrics().connections("short"), LIVE)

    def churn(self, server, application, count):
        """Makes `count` connections by threads; returns the wrong addresses."""
        wrong = []

        def connect_often():
            with self.namespace(self.names[0]):
                for _ in range(count // THREADS):
                    with peers.connect((server, application.port), timeout=60) as sock:
                        own = plain(sock.getsockname())
                        seen = tuple(plain(each) for each in seen_by(sock))
                        if seen != (own, own):
                            wrong.append((own, seen))
        tasks = [peers.Task(connect_often) for _ in range(THREADS)]
        return tasks, wrong

    def outward(self, application, done):
        """Connections of the application to remote ports of the numbers that the proxy uses, from
        the application's own port; until `done`, and at least one."""
        wrong, made = [], 0
        while not done() or made == 0:
            for family, remote, ports in ((socket.AF_INET, CLIENT, self.source_ports()),
                                          (socket.AF_INET6, CLIENT6, range(PORT_FIRST, PORT_FIRST + 5))):
                for port in list(ports)[:5]:
                    made += self.connect_outward(family, remote, port, application.port, wrong)
        return made, wrong

    def source_ports(self):
        """Local ports of the proxy's current connections to the application."""
        ports = []
        with self.namespace(self.names[1]):
            table = Path("/proc/thread-self/net/tcp").read_text()
        for line in table.splitlines()[1:]:
            local = line.split()[1]
            address, port = local.split(":")
            if int.from_bytes(bytes.fromhex(address), "little") in SOURCE_BLOCK:
                ports.append(int(port, 16))
        return ports

    def connect_outward(self, family, remote, port, own_port, wrong):
        with contextlib.ExitStack() as stack:
            try:
                with self.namespace(self.names[0]):
                    server = stack.enter_context(socket.create_server((remote, port), family=family))
                with self.namespace(self.names[1]):
                    sock = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                    sock.setsockopt(socket.SOL_SOCKET, option, 1)
                sock.bind(("0.0.0.0" if family == socket.AF_INET else "::", own_port))
                sock.connect((remote, port))
            except OSError:
                return 0  # the port is in use just now, or in TIME_WAIT
            accepted = stack.enter_context(server.accept()[0])
            if plain(sock.getpeername()) != (remote, port):
                wrong.append((sock.getpeername(), (remote, port)))
            # The packet filter may change the port, for the sake of a client's connection.
            if plain(accepted.getpeername())[0] not in (SERVER, SERVER6):
                wrong.append((accepted.getpeername(), sock.getsockname()))
            peers.reset(sock)
        return 1

    def run_churn(self, listen, server):
        self.start_inbound(listen, concurrency=2)
        application = self.application("::")
        tasks, wrong = self.churn(server, application, CHURN)
        made, misreported = self.outward(application, lambda: not any(t.is_alive() for t in tasks))
        for task in tasks:
            task.finish()
        self.assertEqual(misreported, [])
        self.assertEqual(wrong[:10], [], f"{len(wrong)} of {CHURN}")
        # A few may bypass the proxy, because the packet filter assigns them to an outgoing connection.
        self.assertEqual(set(self.results()), {"shown"})
        self.assertGreater(self.results()["shown"], CHURN * 9 // 10)
        print(f"{CHURN} connections to {server}, {made} outward: none misreported")

    def test_churn_over_ipv4(self):
        self.run_churn("0.0.0.0", SERVER)

    def test_churn_over_ipv6(self):
        self.run_churn("[::]", SERVER6)

    def test_restarted_proxy_confuses_nothing(self):
        self.start_inbound()
        application = self.application("0.0.0.0")
        for _ in range(3):
            with self.connect(SERVER, application.port) as sock:
                self.assert_shown(sock)
            self.inbound.terminate()
            self.inbound.wait_exit()
            self.start_server_proxy("redirect")

    def test_switched_off(self):
        self.start_inbound(client_address="off")
        application = self.application("0.0.0.0")
        with self.connect(SERVER, application.port) as sock:
            accepted, named = seen_by(sock)
        self.assertEqual(accepted[0], SERVER)
        self.assertEqual(accepted, named)
        self.assertEqual(self.results(), {"off": 1})

    def test_without_privileges_the_connection_goes_on_and_says_so(self):
        self.redirect_of_server()
        os.chmod(self.folder, 0o777)
        config = [listener("in", "inbound", listen="0.0.0.0:4543", mode="redirect")]
        # The proxy's user may have no access to the source tree.
        binaries = self.folder / "bin"
        binaries.mkdir()
        shutil.copy(programs() / "fairlead-proxy", binaries)
        self.addCleanup(os.environ.update, {"FAIRLEAD_BIN": str(programs())})
        os.environ["FAIRLEAD_BIN"] = str(binaries)
        wrapper = ["nsenter", f"--net=/run/netns/{self.names[1]}", "setpriv", "--reuid", "2201",
                   "--regid", "2201", "--clear-groups", "--no-new-privs", "--bounding-set", "-all"]
        self.inbound = self.start("in", config, wrapper=wrapper)
        outside = self.inbound.get

        def get(path):
            with self.namespace(self.names[1]):
                return outside(path)
        self.inbound.get = get
        application = self.application("0.0.0.0")
        with self.connect(SERVER, application.port) as sock:
            accepted, named = seen_by(sock)
        self.assertEqual((accepted[0], accepted), (SERVER, named))
        self.assertEqual(self.results(), {"unavailable": 1})
        check = [check for check in self.inbound.get_json("/doctor")["checks"]
                 if check["name"] == "client_address"]
        self.assertEqual([each["status"] for each in check], ["warn"])
        self.assertIn("CAP_BPF", check[0]["finding"])
        steps = self.inbound.get_json("/why")["decisions"][0]["steps"]
        self.assertTrue(any("does not see the client's address" in step for step in steps), steps)

    def test_static_listener(self):
        """Its application listens on loopback; the address cannot be reported to an application on another host."""
        application = self.application("127.0.0.1")
        self.inbound = self.start_in(
            self.names[1], "in",
            [listener("in", "inbound", ("127.0.0.1", application.port), listen=f"{SERVER}:4600")])
        self.require_programs()
        with self.connect(SERVER, 4600) as sock:
            self.assert_shown(sock)
        with self.namespace(self.names[0]):
            remote = Application(CLIENT)
        self.addCleanup(remote.close)
        self.inbound = self.start_in(
            self.names[1], "far",
            [listener("in", "inbound", (CLIENT, remote.port), listen=f"{SERVER}:4601")])
        with self.connect(SERVER, 4601) as sock:
            accepted, _ = seen_by(sock)
        self.assertEqual(accepted[0], SERVER)
        self.assertEqual(self.results(), {"refused": 1})


def peers_text(address):
    host, port = plain(address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


if __name__ == "__main__":
    main()
