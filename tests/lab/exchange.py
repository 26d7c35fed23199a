"""One connection with bytes both ways, over any transport."""
from expect import expect_stream

COUNT = 200_000


def both_ways(count=COUNT, seed=1):
    """Steps of the client and of the server, ending in half-closes: the client's end first."""
    return ([["send", count, seed], ["shutdown"], ["receive"]],
            [["receive"], ["send", count, seed + 1], ["close"]])


def expect_both_ways(mine, theirs, what=""):
    expect_stream(mine[0], theirs[0], f"{what}to the server")
    expect_stream(theirs[1], mine[2], f"{what}to the client")


def talk_both_ways(stage, node, server, address, port, count=COUNT, **how):
    expect_both_ways(*stage.talk(node, server, address, port, *both_ways(count), **how))
