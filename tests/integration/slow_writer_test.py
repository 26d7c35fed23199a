"""Slow writers for minutes: no byte is lost, and the proxies use nearly no CPU."""
import random
import time

import peers
from harness import ProxyTest, main, seconds

SECONDS = 120
WRITERS = 50


class SlowWriters(ProxyTest):
    def test_slow_writers(self):
        def trickle(sock, seed):
            generator, digest = random.Random(seed), peers.Digest()
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                block = generator.randbytes(generator.randrange(1, 3000))
                sock.sendall(block)
                digest.add(block)
                time.sleep(generator.uniform(0.2, 0.6))
            sock.close()
            return digest.value()
        with peers.Server(peers.receive_digest) as server:
            self.start_pair(server.address)
            begin = [proxy.metrics().value("process_cpu_seconds_total") for proxy in self.proxies]
            writers = [peers.Task(trickle, peers.connect(self.entry), seed) for seed in range(WRITERS)]
            sent = [writer.finish(SECONDS * 3) for writer in writers]
            self.assertEqual(sorted(server.results(WRITERS)), sorted(sent))
            for proxy, was in zip(self.proxies, begin):
                used = proxy.metrics().value("process_cpu_seconds_total") - was
                self.assertLess(used, seconds(SECONDS * 0.25), f"CPU seconds of {proxy.name}")
        self.assert_carried(WRITERS)


if __name__ == "__main__":
    main()
