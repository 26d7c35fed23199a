"""Access rights of a proxy's admin interface, and its availability while clients misbehave."""
import http.client
import json
import os
import unittest

from harness import ProxyTest, UnixConnection, listener, main, seconds, wait_until
from slow_clients import assert_probes_are_answered

PUBLIC = ("/metrics", "/livez", "/readyz")


class Admin(ProxyTest):
    def setUp(self):
        super().setUp()
        self.proxy = self.start("in", [listener("in", "inbound", ("127.0.0.1", 9))])
        host, port = self.proxy.admin.rsplit(":", 1)
        self.address = (host, int(port))

    def over_tcp(self, method, path):
        connection = http.client.HTTPConnection(*self.address, timeout=seconds(10))
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def wait_refused(self, reason):
        line = f" http event=refused reason={reason} source=127.0.0.1 "
        wait_until(lambda: line in self.proxy.log(), "the line")

    def test_port_serves_probes_and_metrics_only(self):
        for path in PUBLIC:
            self.assertEqual(self.over_tcp("GET", path)[0], 200, path)
        refused = [("GET", "/"), ("GET", "/no-such-path")]
        refused += [(route["method"], route["path"]) for route in self.proxy.get_json("/")["routes"]
                    if route["path"] not in PUBLIC and route["path"] != "/"]
        for method, path in refused:
            status, body = self.over_tcp(method, path)
            self.assertEqual(status, 403, path)
            self.assertIn(self.proxy.socket, json.loads(body)["error"])
        self.assertIn(f'fairlead_http_refused_total{{reason="forbidden"}} {len(refused)}\n',
                      self.proxy.get("/metrics"))
        self.wait_refused("forbidden")
        self.assertFalse(json.loads(self.over_tcp("GET", "/readyz")[1])["draining"])

    def test_slow_clients_do_not_delay_probes(self):
        assert_probes_are_answered(self, self.address,
                                   lambda: self.assertEqual(self.over_tcp("GET", "/livez")[0], 200),
                                   b"GET /livez HTTP/1.1\r\nX-Slow: ")
        self.wait_refused("crowded")

    @unittest.skipUnless(os.geteuid() == 0, "only root can connect as another user")
    def test_other_users_of_the_pod_may_not_use_the_socket(self):
        # The mode of a path would already refuse them; an abstract name has no mode.
        name = f"fairlead-admin-test-{os.getpid()}"
        self.start("abstract", [listener("in", "inbound", ("127.0.0.1", 9))],
                   {"admin": {"socket": "@" + name}})
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 0
            try:
                os.setresuid(65534, 65534, 65534)
                for method, path in (("GET", "/linkgroups"), ("POST", "/drain")):
                    connection = UnixConnection("\0" + name, seconds(10))
                    connection.request(method, path)
                    status = max(status, connection.getresponse().status)
                    os.write(writer, f"{status}\n".encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with os.fdopen(reader) as answers:
            self.assertEqual(answers.read().split(), ["403", "403"])


if __name__ == "__main__":
    main()
