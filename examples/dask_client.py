#!/usr/bin/env python3
"""A client of several Dask clusters. Reads commands from standard input, and prints a line of JSON for each:

    connect CLUSTER SCHEDULER WORKERS     returns when that many workers have joined
    shuffle CLUSTER ROWS                  moves all rows with the same key into one partition
    transpose CLUSTER SIDE                turns blocks of rows of a square matrix into blocks of columns

CLUSTER is any name. The last two say whether the result is right, and the seconds. Each starts with data that lies in
the memory of the workers, and ends with the result there.
"""
import json
import sys
import time

import dask
import dask.array
import dask.dataframe
import distributed
import numpy
import pandas

PARTITIONS = 8
VALUE_COLUMNS = 7
KEY_FACTOR = 2654435761  # scatters keys over the partitions
KEYS = 1 << 20
COLUMNS = ["key"] + [f"value{number}" for number in range(VALUE_COLUMNS)]
SECONDS_MAX = 60


def part(first, rows):
    """Rows whose content depends on their number."""
    number = numpy.arange(first, first + rows, dtype="int64")
    return pandas.DataFrame({"key": number * KEY_FACTOR % KEYS, **{name: number for name in COLUMNS[1:]}})


def summary(frame):
    """(rows, sum of a column, different keys, whether all columns of each row belong together) of a partition"""
    number = frame[COLUMNS[1]]
    intact = all((frame[name] == number).all() for name in COLUMNS[2:]) and (frame["key"] == number * KEY_FACTOR % KEYS).all()
    return len(frame), int(number.sum()), frame["key"].nunique(), bool(intact)


def results(client, collections):
    return client.gather(client.compute(collections))


def kept(client, collection):
    """The collection, computed, in the memory of the workers; and the seconds that it took."""
    begin = time.monotonic()
    collection = client.persist(collection)
    distributed.wait(collection, SECONDS_MAX)
    return collection, time.monotonic() - begin


def shuffle(client, rows):
    each = rows // PARTITIONS
    parts = [dask.delayed(part)(index * each, each) for index in range(PARTITIONS)]
    frame, _ = kept(client, dask.dataframe.from_delayed(parts, meta=part(0, 1)))
    shuffled, seconds = kept(client, frame.shuffle("key", shuffle="tasks"))
    found = results(client, [dask.delayed(summary)(one) for one in shuffled.to_delayed()])
    total = each * PARTITIONS
    keys = len(set(numpy.arange(total, dtype="int64") * KEY_FACTOR % KEYS))
    right = (sum(row[0] for row in found) == total and sum(row[1] for row in found) == total * (total - 1) // 2
             and sum(row[2] for row in found) == keys and all(row[3] for row in found))
    return {"right": bool(right), "rows": total, "bytes": total * len(COLUMNS) * 8, "seconds": seconds}


def transpose(client, side):
    numbers = dask.array.arange(side * side, dtype="int64", chunks=side * side // PARTITIONS).reshape(side, side)
    rows, _ = kept(client, numbers.rechunk((side // PARTITIONS, side)))
    columns, seconds = kept(client, rows.rechunk((side, side // PARTITIONS)))
    (sums,) = results(client, [columns.sum(axis=0)])
    first = side * (side * (side - 1) // 2)  # the sum of column 0
    right = (sums == first + side * numpy.arange(side)).all() and columns.numblocks == (1, PARTITIONS)
    return {"right": bool(right), "rows": side, "bytes": side * side * 8, "seconds": seconds}


def connect(scheduler, workers):
    client = distributed.Client(scheduler, timeout=SECONDS_MAX, set_as_default=False)
    client.wait_for_workers(workers, timeout=SECONDS_MAX)
    return client


def main():
    clients = {}
    for line in sys.stdin:
        what, cluster, *words = line.split()
        if what == "connect":
            clients[cluster] = connect(words[0], int(words[1]))
            done = {"workers": len(clients[cluster].scheduler_info()["workers"])}
        else:
            with clients[cluster].as_current():
                done = {"shuffle": shuffle, "transpose": transpose}[what](clients[cluster], int(words[0]))
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
