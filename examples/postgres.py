#!/usr/bin/env python3
"""PostgreSQL with pgbench, and a pg_hba.conf that admits one address: examples/postgres.py [--short] [--build DIR]"""
import hashlib
import os
import pwd
import re
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
from example import FAIRLEAD, HAPROXY, MIB, Example, Unavailable, main  # noqa: E402 pylint: disable=wrong-import-position
from demo_scene import Failure, expect, say, wait_for  # noqa: E402 pylint: disable=wrong-import-position

PORT = 5432
BANK, BEHIND_PROXY = "bank", "behind_proxy"  # the roles of clients
# The last line is for the measurement of HAProxy only. It admits whoever reaches HAProxy.
HBA = """local all postgres trust
host all {bank} {client}/32 trust
host all {behind_proxy} {server}/32 trust
"""
SETTINGS = ("fsync=off", "synchronous_commit=off", "shared_buffers=128MB", "autovacuum=off", "max_connections=64")
SCALE = 5  # of pgbench: 100,000 accounts each
CLIENTS = 8
SELECT = "select by key, 8 clients"
TRANSFER = "TPC-B-like, 8 clients"
CONNECT = "select, one connection each"
COPY = "COPY of 200,000 rows"
COPIES = 3
ROWS = 200_000
ROWS_TABLE = f"CREATE TABLE rows AS SELECT id, repeat(md5(id::text), 8) FROM generate_series(1, {ROWS}) AS id"
ROWS_QUERY = "COPY (SELECT * FROM rows ORDER BY id) TO"
RATE = re.compile(r"^tps = ([\d.]+)", re.M)
PROCESSED = re.compile(r"^number of transactions actually processed: (\d+)", re.M)
FAILED = re.compile(r"^number of failed transactions: (\d+)", re.M)
BALANCES = ("pgbench_accounts", "abalance"), ("pgbench_tellers", "tbalance"), ("pgbench_branches", "bbalance")


def binaries():
    """The newest of the installed versions."""
    return max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]), default=None)


class Postgres(Example):
    name = "postgres"
    title = "A PostgreSQL server that admits only the client's own address, and pgbench"
    ports = {"server": (PORT,)}
    work = {SELECT: "short queries", TRANSFER: "short transactions", CONNECT: "queries with a new connection each",
            COPY: "large results"}
    shown = "The address of a client that the server sees, and whether pg_hba.conf admits it"

    def check_means(self):
        if not binaries():
            raise Unavailable("not installed: postgresql; scripts/bootstrap.sh examples installs all packages")
        self.programs_at = binaries().parent
        try:
            self.user = pwd.getpwnam("postgres").pw_uid
        except KeyError:
            raise Unavailable("there is no user postgres to run the server as") from None

    def start(self):
        self.transactions = 0
        self.home = self.scene.directory / "postgres"
        self.home.mkdir()
        os.chown(self.home, self.user, -1)
        self.as_server("initdb", "-D", self.home / "data", "-A", "trust", "-U", "postgres", "--no-sync", "--no-locale", "-E", "UTF8")
        addresses = self.stage.addresses
        (self.home / "data/pg_hba.conf").write_text(HBA.format(bank=BANK, behind_proxy=BEHIND_PROXY, **addresses))
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        self.stage.start_as(self.user, "postgres", "server", [
            self.programs_at / "postgres", "-D", self.home / "data", "-h", addresses["server"], "-p", str(PORT), "-k", self.home,
            *settings])
        wait_for("PostgreSQL to start", self.answers)
        self.admin(f"CREATE ROLE {BANK} LOGIN", "postgres")
        self.admin(f"CREATE ROLE {BEHIND_PROXY} LOGIN IN ROLE {BANK}", "postgres")
        self.admin(f"CREATE DATABASE {BANK} OWNER {BANK}", "postgres")
        self.client(BANK, "pgbench", "-i", "-q", "-s", str(SCALE), BANK)
        self.query(BANK, ROWS_TABLE)
        copy = self.home / "rows"
        self.admin(f"{ROWS_QUERY} '{copy}'")
        self.digest = digest(copy)

    def as_server(self, program, *words):
        return self.scene.run(["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups",
                               self.programs_at / program, *words])

    def admin(self, statement, database=BANK):
        """As the superuser, over the server's own socket."""
        return self.as_server("psql", "-h", self.home, "-p", str(PORT), "-U", "postgres", "-d", database,
                              "-qAtc", statement).strip()

    def answers(self):
        try:
            return self.admin("SELECT 1", "postgres") == "1"
        except Failure:
            return False

    def client(self, role, program, *words):
        """A command in the client's pod."""
        return self.scene.run(self.stage.inside("client", [
            self.programs_at / program, "-h", self.stage.addresses["server"], "-p", str(PORT), "-U", role, *words]), seconds=120)

    def role(self, way):
        """Each role is admitted from one address."""
        return BEHIND_PROXY if way == HAPROXY else BANK

    def query(self, role, statement):
        return self.client(role, "psql", "-qAt", "-d", BANK, "-c", statement).strip()

    def show(self):
        self.show_addresses(lambda: self.query(self.role(self.stage.way), "SELECT host(inet_client_addr())"))
        say(f"\npg_hba.conf admits the role {BANK} only from {self.stage.addresses['client']}:")
        self.stage.use(FAIRLEAD)
        say(f"{FAIRLEAD:9} admitted as {self.query(BANK, 'SELECT current_user')}")
        self.stage.use(HAPROXY)
        try:
            self.query(BANK, "SELECT current_user")
        except Failure as failure:
            found = re.search(r'no pg_hba\.conf entry for host "([^"]*)"', str(failure))
            expect(found, str(failure))
            expect(found[1] == self.stage.addresses["server"], f"refused for another host: {found[1]}")
            say(f"{HAPROXY:9} refused: {found[0]}")
        else:
            raise Failure("HAProxy: admitted, although the server sees another address")
        say(f"The measurement of HAProxy uses another role, which pg_hba.conf admits from {self.stage.addresses['server']}.")

    def bench(self, way, transactions, *words):
        """Transactions per second, and how many there were."""
        each = max(1, self.amount(transactions) // CLIENTS)
        output = self.client(self.role(way), "pgbench", "-n", "-c", str(CLIENTS), "-t", str(each), *words, BANK)
        rate, processed, failed = RATE.search(output), PROCESSED.search(output), FAILED.search(output)
        expect(rate and processed and failed, f"pgbench printed: {output[-300:]}")
        expect(int(failed[1]) == 0 and int(processed[1]) == each * CLIENTS,
               f"{way}: {processed[1]} of {each * CLIENTS} transactions, {failed[1]} failed")
        return float(rate[1]), int(processed[1])

    def copy(self, way):
        """MiB/s of COPY to a file."""
        file, copies = self.scene.directory / "rows", self.amount(COPIES)
        words = [word for _ in range(copies) for word in ("-c", f"\\{ROWS_QUERY.lower()} '{file}'")]
        begin = time.monotonic()
        output = self.client(self.role(way), "psql", "-d", BANK, *words)
        seconds = time.monotonic() - begin
        expect(output.split("\n").count(f"COPY {ROWS}") == copies, f"{way}: {output[-300:]}")
        expect(digest(file) == self.digest, f"{way}: {file} differs from the file that the server wrote")
        return copies * file.stat().st_size / MIB / seconds

    def measure(self, way):
        select, _ = self.bench(way, 16000, "-S")
        transfer, transactions = self.bench(way, 3200)
        self.transactions += transactions
        connect, _ = self.bench(way, 400, "-S", "-C")
        copy = self.copy(way)
        self.stage.expect_used()
        return [(SELECT, "queries/s", select), (TRANSFER, "transactions/s", transfer), (CONNECT, "connections/s", connect),
                (COPY, "MiB/s", copy)]

    def check(self):
        """What pgbench's transactions keep: all sums of balances are equal, and the history has a row for each."""
        sums = [self.admin(f"SELECT sum({column}) FROM {table}") for table, column in (*BALANCES, ("pgbench_history", "delta"))]
        expect(len(set(sums)) == 1, f"sums of balances differ: {sums}")
        rows = int(self.admin("SELECT count(*) FROM pgbench_history"))
        expect(rows == self.transactions, f"{rows} rows in pgbench_history after {self.transactions} transactions")
        return (f"{rows:,} transactions left as many rows of history, and the four sums of balances are equal; "
                f"each copy had {ROWS:,} rows and the checksum of the server's own.")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(Postgres))
