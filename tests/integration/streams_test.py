"""Bytes arrive whole and in order: large, tiny, both ways at once."""
import random
import socket

import peers
from harness import ProxyTest, amount, main


class Streams(ProxyTest):
    def serve(self, handle, options=None):
        server = peers.serve(self, handle)
        self.start_pair(server.address, options, options)
        return server

    def test_large_data_both_ways_at_once(self):
        def talk(sock):
            sender = peers.Task(peers.send_random, sock, count, 1)
            got = peers.receive_digest(sock)
            return got, sender.finish()
        count = amount(200_000_000)
        server = self.serve(talk)
        with peers.connect(self.entry) as sock:
            receiver = peers.Task(peers.receive_exactly_digest, sock, count)
            sent = peers.send_random(sock, count, 2)
            sock.shutdown(socket.SHUT_WR)
            got = receiver.finish()
        self.assertEqual(server.results(), [(sent, got)])
        self.assert_carried()
        self.wait_idle()

    def test_large_data_through_small_rings(self):
        """The ring wraps some thousand times."""
        server = self.serve(peers.receive_digest, {"buffers": {"size": "16KiB"}})
        with peers.connect(self.entry) as sock:
            sent = peers.send_random(sock, amount(50_000_000), 3)
        self.assertEqual(server.results(), [sent])
        self.assert_carried()

    def test_one_byte_at_a_time(self):
        self.serve(peers.echo)
        count = amount(20_000)
        message = random.Random(4).randbytes(count)
        with peers.connect(self.entry) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            receiver = peers.Task(peers.receive_exactly, sock, count)
            for byte in message:
                sock.sendall(bytes([byte]))
            self.assertEqual(receiver.finish(), message)
        self.assert_carried()

    def test_questions_and_answers_of_all_sizes(self):
        self.serve(peers.echo)
        generator = random.Random(5)
        with peers.connect(self.entry) as sock:
            for _ in range(amount(400)):
                message = generator.randbytes(int(2 ** generator.uniform(0, 19)))
                sender = peers.Task(sock.sendall, message)
                self.assertEqual(peers.receive_exactly(sock, len(message)), message)
                sender.finish()
        self.assert_carried()

    def test_server_that_speaks_first(self):
        """Like SMTP: the client is silent until it has been greeted."""
        def mail(sock):
            lines = sock.makefile("rwb", buffering=0)
            lines.write(b"220 ready\r\n")
            heard = [lines.readline()]
            lines.write(b"250 hello\r\n")
            heard.append(lines.readline())
            lines.write(b"221 bye\r\n")
            return heard
        server = self.serve(mail)
        with peers.connect(self.entry) as sock, sock.makefile("rwb", buffering=0) as lines:
            self.assertEqual(lines.readline(), b"220 ready\r\n")
            lines.write(b"EHLO client\r\n")
            self.assertEqual(lines.readline(), b"250 hello\r\n")
            lines.write(b"QUIT\r\n")
            self.assertEqual(lines.readline(), b"221 bye\r\n")
            self.assertEqual(lines.readline(), b"")
        self.assertEqual(server.results(), [[b"EHLO client\r\n", b"QUIT\r\n"]])
        self.assert_carried()
        self.wait_idle()


if __name__ == "__main__":
    main()
