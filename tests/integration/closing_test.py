"""FIN, RST and half-close arrive at the other application as if there were no proxy."""
import contextlib
import queue
import socket

import peers
from harness import ProxyTest, amount, main, seconds, wait_until


class Closing(ProxyTest):
    def serve(self, handle):
        server = peers.serve(self, handle)
        self.start_pair(server.address)
        return server

    def finish(self, connections=1):
        self.assert_carried(connections)
        self.wait_idle()

    def test_answer_after_the_clients_fin(self):
        self.serve(peers.echo_at_end)
        for count in (1, 100_000, 3_000_000):
            message = bytes(range(256)) * (count // 256 + 1)
            self.assertEqual(peers.exchange(self.entry, message[:count]), message[:count])
        self.finish(3)

    def test_client_talks_on_after_the_servers_fin(self):
        def speak_and_listen(sock):
            sock.sendall(b"that is all")
            sock.shutdown(socket.SHUT_WR)
            return peers.receive_digest(sock)
        server = self.serve(speak_and_listen)
        with peers.connect(self.entry) as sock:
            self.assertEqual(peers.receive_all(sock), b"that is all")
            sent = peers.send_random(sock, amount(2_000_000), 1)
        self.assertEqual(server.results(), [sent])
        self.finish()

    def test_fin_of_both_at_once(self):
        def speak(sock):
            sock.sendall(b"s" * 1000)
            sock.shutdown(socket.SHUT_WR)
            return peers.receive_all(sock)
        server = self.serve(speak)
        for _ in range(50):
            self.assertEqual(peers.exchange(self.entry, b"c" * 1000), b"s" * 1000)
        self.assertEqual(server.results(50), [b"c" * 1000] * 50)
        self.finish(50)

    def test_nothing_is_lost_before_a_fin(self):
        """Servers that close at once after their last byte."""
        def speak_and_leave(sock):
            return peers.send_random(sock, int.from_bytes(sock.recv(4), "big"), 2)
        server = self.serve(speak_and_leave)
        counts = [1, 16_384, 65_536, 524_288, 524_289, 2_000_000] * amount(6)
        got = []
        for count in counts:
            with peers.connect(self.entry) as sock:
                sock.sendall(count.to_bytes(4, "big"))
                got.append(peers.receive_digest(sock))
        self.assertEqual(got, server.results(len(counts)))
        self.finish(len(counts))

    def test_no_byte_at_all(self):
        server = self.serve(peers.receive_all)
        with peers.connect(self.entry):
            pass
        self.assertEqual(server.results(), [b""])
        self.finish()

    def test_reset_by_the_client(self):
        accepted = queue.Queue()

        def listen(sock):
            accepted.put(sock.recv(1))
            return peers.ends_in_reset(sock)
        server = self.serve(listen)
        for count in (1, 100_000):
            sock = peers.connect(self.entry)
            sock.sendall(bytes(count))
            accepted.get(timeout=seconds(10))
            peers.reset(sock)
        self.assertEqual(server.results(2), [True, True])
        self.finish(2)

    def test_reset_by_the_server(self):
        def hang_up(sock):
            sock.recv(1)
            peers.reset(sock)
        self.serve(hang_up)
        with peers.connect(self.entry) as sock:
            sock.sendall(b"x")
            self.assertTrue(peers.ends_in_reset(sock))
        self.finish()

    def test_reset_by_a_client_that_does_not_read(self):
        """The server is stuck in the middle of sending, with all buffers full."""
        stuck = queue.Queue()

        def push(sock):
            sock.setblocking(False)
            block = bytes(peers.BLOCK_BYTES)
            sock.send(block)
            stuck.put(True)
            sock.settimeout(seconds(20))
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                while True:
                    sock.sendall(block)
            return "reset"
        server = self.serve(push)
        sock = peers.connect(self.entry, receive_buffer=4096)
        stuck.get(timeout=seconds(10))

        def full():
            metrics = self.inbound.metrics()
            before = metrics.value("fairlead_bytes_total", direction="inbound", flow="tx")
            return before > 0 and all(
                self.inbound.metrics().value("fairlead_bytes_total", direction="inbound",
                                             flow="tx") == before for _ in range(20))
        wait_until(full, "all buffers to be full")
        peers.reset(sock)
        self.assertEqual(server.results(), ["reset"])
        self.finish()

    def test_close_of_a_client_to_which_the_server_still_sends(self):
        """The client's kernel answers late data with a RST, which must reach the server."""
        def push(sock):
            peers.receive_all(sock)
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                while True:
                    sock.sendall(bytes(1000))
            return "reset"
        server = self.serve(push)
        with peers.connect(self.entry) as sock:
            sock.sendall(b"x")
        self.assertEqual(server.results(), ["reset"])
        self.finish()

    def test_close_of_a_server_to_which_the_client_still_sends(self):
        def leave(sock):
            peers.receive_exactly(sock, 1)
        self.serve(leave)
        with peers.connect(self.entry) as sock:
            sock.sendall(b"x")
            with self.assertRaises((ConnectionResetError, BrokenPipeError)):
                while True:
                    sock.sendall(bytes(1000))
        self.finish()

    def test_closed_port_is_a_reset(self):
        # Bound without listening, so that no other program, not even a proxy, gets the port.
        with socket.socket() as closed:
            closed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            closed.bind(("127.0.0.1", 0))
            self.start_pair(closed.getsockname())
            for _ in range(5):
                self.assertTrue(peers.meets_reset(self.entry))
            self.wait_idle()
            for proxy in self.proxies:
                self.assertEqual(proxy.metrics().connections("smcr"), 0)
            # These connections must not affect the next one.
            with peers.Server(peers.echo_at_end, port=closed.getsockname()[1]):
                self.assertEqual(peers.exchange(self.entry, b"open now"), b"open now")
        self.finish()


if __name__ == "__main__":
    main()
