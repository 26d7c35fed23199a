#!/usr/bin/env python3
"""A Dask cluster that shuffles: examples/dask_shuffle.py [--short] [--build DIR]

Debian's Dask, so its programs run with Debian's Python. Connections of a cluster stay open for as long as it lives.
Therefore each way has its own cluster, which has started while new connections went that way.
"""
import json
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from example import MIB, WAYS, Example, Unavailable, main  # noqa: E402
from demo_scene import expect, say, wait_for  # noqa: E402

PYTHON = "/usr/bin/python3"
FIRST_PORT = 8700
SCHEDULER, WORKER, PORTS_OF_A_CLUSTER = 0, 1, 10  # added to the first port of the cluster
WORKERS = 2
ROWS, SIDE = 2_400_000, 5600
SHUFFLE = "shuffle of a dataframe"
TRANSPOSE = "rechunk of a matrix"


class Cluster:
    """A scheduler and a worker in the server's pod; a worker in the client's pod."""

    def __init__(self, stage, way):
        self.stage, self.way = stage, way
        self.port = FIRST_PORT + PORTS_OF_A_CLUSTER * WAYS.index(way)
        host = stage.addresses["server"]
        self.scheduler = f"tcp://{host}:{self.port + SCHEDULER}"
        self.start("server", "scheduler", "-m", "distributed.cli.dask_scheduler", "--no-dashboard",
                   "--host", host, "--port", str(self.port + SCHEDULER))

    def start(self, pod, name, *words):
        self.stage.scene.start(f"{self.way}-{name}", self.stage.inside(pod, [PYTHON, *words]))

    def start_workers(self):
        for pod, address in self.stage.addresses.items():
            folder = self.stage.scene.directory / f"{self.way}-{pod}"
            self.start(pod, f"worker-{pod}", "-m", "distributed.cli.dask_worker", "--no-nanny", "--no-dashboard",
                       "--nthreads", "1", "--memory-limit", "0", "--local-directory", folder,
                       "--host", address, "--worker-port", str(self.port + WORKER), self.scheduler)


class Client:
    """The process in the client's pod that has work done by the clusters."""

    def __init__(self, stage):
        self.process = stage.scene.start("dask-client", stage.inside("client", [
            PYTHON, "-B", Path(__file__).with_name("dask_client.py")]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            encoding="utf-8")

    def do(self, what, way, *words):
        print(what, way, *words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        expect(line, f"{way}: the client of the cluster ended")
        done = json.loads(line)
        expect(done.get("right", True), f"{way}: {what} gave a wrong result: {line}")
        return done


class DaskShuffle(Example):
    name = "dask"
    title = "A Dask cluster of a scheduler and two workers"
    ports = {pod: tuple(FIRST_PORT + PORTS_OF_A_CLUSTER * index + offset for index in range(len(WAYS)) for offset in offsets)
             for pod, offsets in (("client", (WORKER,)), ("server", (SCHEDULER, WORKER)))}
    work = {SHUFFLE: "shuffles of dataframes", TRANSPOSE: "rechunks of arrays"}
    shown = "Connections of the cluster behind Fairlead"

    def check_means(self):
        done = subprocess.run([PYTHON, "-c", "import dask.dataframe, distributed"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = (done.stderr.strip().splitlines() or ["no reason"])[-1]
            raise Unavailable(f"{PYTHON} has no Dask ({why}); scripts/bootstrap.sh examples installs all packages")

    def start(self):
        self.client, self.rows, self.shuffles = Client(self.stage), 0, 0
        clusters = {way: Cluster(self.stage, way) for way in WAYS}
        for way, cluster in clusters.items():
            print(f"a cluster for {way}", file=sys.stderr, flush=True)
            wait_for("the scheduler to start", lambda cluster=cluster: self.stage.listens("server", cluster.port + SCHEDULER))
            self.stage.use(way)
            cluster.start_workers()
            done = self.client.do("connect", way, cluster.scheduler, WORKERS)
            expect(done["workers"] == WORKERS, f"{way}: {done['workers']} workers")
            self.client.do("shuffle", way, ROWS // 100)  # opens the connections between the workers
            self.stage.expect_used()

    def show(self):
        for pod, proxy in self.stage.proxies.items():
            say(f"{pod}$ fairleadctl connections\n{self.scene.run([*proxy.ctl_command, 'connections']).rstrip()}\n")

    def measure(self, way):
        shuffled = self.client.do("shuffle", way, self.amount(ROWS))
        turned = self.client.do("transpose", way, SIDE // 4 if self.short else SIDE)
        self.rows += shuffled["rows"]
        self.shuffles += 1
        return [(SHUFFLE, "MiB/s", shuffled["bytes"] / MIB / shuffled["seconds"]),
                (TRANSPOSE, "MiB/s", turned["bytes"] / MIB / turned["seconds"])]

    def check(self):
        return (f"{self.shuffles} shuffles kept all {self.rows:,} rows intact, with each key in one partition; "
                "all sums of columns of the matrices are right.")


if __name__ == "__main__":
    sys.exit(main(DaskShuffle))
