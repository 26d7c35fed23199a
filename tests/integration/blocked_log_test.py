"""A standard error without a reader stops neither the data, nor the metrics, nor the end of a proxy."""
import fcntl
import os
import select
import threading

import peers
from harness import ProxyTest, listener, main, wait_until

PIPE_BYTES = 4096
BLOCK = b"x" * 65536
# It is passed as argument $0.
THROUGH_FIFO = 'exec "$@" 2>"$0"'


class Reader:
    """Copies a FIFO to a file; can be paused and continued."""

    def __init__(self, fifo, copy):
        os.mkfifo(fifo)
        self.fd = os.open(fifo, os.O_RDWR)  # the writer finds a reader, at any time
        fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.copy = copy
        self.reads = threading.Event()
        self.ended = False
        self.reads.set()
        self.idle = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended:
            if not self.reads.is_set():
                self.idle.set()
                self.reads.wait()
                continue
            if select.select([self.fd], [], [], 0.05)[0]:
                part = os.read(self.fd, PIPE_BYTES)
                with open(self.copy, "ab") as copy:
                    copy.write(part)

    def pause(self):
        self.idle.clear()
        self.reads.clear()
        self.idle.wait()

    def go_on(self):
        self.reads.set()

    def close(self):
        self.ended = True
        self.go_on()
        self.thread.join()
        os.close(self.fd)


class BlockedLog(ProxyTest):
    def start_with_reader(self, name, listeners):
        fifo = self.folder / f"{name}.fifo"
        reader = Reader(fifo, self.folder / f"{name}.0.log")
        self.addCleanup(reader.close)
        # The harness opens the log file again and truncates it; nothing has been copied before.
        proxy = self.start(name, listeners, wrapper=("sh", "-c", THROUGH_FIFO, fifo))
        return proxy, reader

    def dropped(self, proxy):
        return proxy.metrics().value("fairlead_log_dropped_total")

    def test_data_goes_on_and_the_end_comes(self):
        with peers.Server(peers.echo) as server:
            inbound, reads_in = self.start_with_reader("in", [listener("in", "inbound", server.address)])
            outbound, reads_out = self.start_with_reader(
                "out", [listener("out", "outbound", inbound.address("in"))])
            entry = outbound.address("out")
            with peers.connect(entry) as old:
                peers.assert_echo(old, b"before")
                for reader in (reads_in, reads_out):
                    reader.pause()
                # Each connection logs some lines at debug; they fill the pipe, then the queue.
                while min(self.dropped(inbound), self.dropped(outbound)) == 0:
                    for _ in range(100):
                        self.assertEqual(peers.exchange(entry, b"hello"), b"hello")
                peers.assert_echo(old, BLOCK)
                # With a reader again, the loss is logged and the newest lines are there.
                reads_in.go_on()
                wait_until(lambda: " event=dropped lines=" in inbound.log(), "the line about the loss", 20)
            peers.exchange(entry, b"newest")
        # One proxy ends with a reader, the other without.
        outbound.terminate()
        self.assertEqual(outbound.wait_exit(20), 0)
        inbound.terminate()
        self.assertEqual(inbound.wait_exit(20), 0)
        wait_until(lambda: " event=stopped" in inbound.log(), "the last line of the proxy that is read")
        self.assertNotIn(" event=stopped", outbound.log())


if __name__ == "__main__":
    main()
