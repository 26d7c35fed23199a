"""The side that ends a connection first closes each leg first, so that TIME_WAIT uses up none of the other side's ports.
In a network namespace of its own: where many sockets are in TIME_WAIT, the kernel takes no more."""
import socket

import own_network
import peers
from harness import ProxyTest, main, wait_until

TIME_WAIT = "06"


def time_waits(port):
    """Sockets in TIME_WAIT of this port: those of the host that listens on it, and those of its clients."""
    listening = dialling = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            next(lines)
            for line in lines:
                _, local, remote, state = line.split()[:4]
                if state == TIME_WAIT:
                    listening += int(local.rsplit(":", 1)[1], 16) == port
                    dialling += int(remote.rsplit(":", 1)[1], 16) == port
    return listening, dialling


def setUpModule():  # pylint: disable=invalid-name
    own_network.enter()


class CloseOrder(ProxyTest):
    COUNT = 40

    def check(self, server_first, request=b"question"):
        def serve(sock):
            heard = peers.receive_exactly(sock, len(request))
            sock.sendall(heard)
            if server_first:
                sock.shutdown(socket.SHUT_WR)
            self.assertEqual(sock.recv(1), b"")
        server = peers.serve(self, serve)
        self.start_pair(server.address)
        legs = {"application to proxy": self.entry[1], "proxy to proxy": self.inbound.address("in")[1],
                "proxy to application": server.address[1]}
        for _ in range(self.COUNT):
            with peers.connect(self.entry) as sock:
                peers.assert_echo(sock, request)
                if not server_first:
                    sock.shutdown(socket.SHUT_WR)
                self.assertEqual(sock.recv(1), b"")
        self.wait_idle()
        for leg, port in legs.items():
            wait_until(lambda p=port: sum(time_waits(p)) >= self.COUNT, f"TIME_WAIT on the leg {leg}")
            with self.subTest(leg):
                self.assertEqual(time_waits(port), (self.COUNT, 0) if server_first else (0, self.COUNT))

    def test_the_server(self):
        self.check(server_first=True)

    def test_the_client(self):
        self.check(server_first=False)

    def test_the_server_behind_much_data(self):
        self.check(server_first=True, request=bytes(300_000))

    def test_the_client_behind_much_data(self):
        self.check(server_first=False, request=bytes(300_000))


if __name__ == "__main__":
    main()
