"""One connection with bytes both ways, over any transport."""
from expect import expect_stream

COUNT = 200_000
BOTH_WAYS = [["send", COUNT, 1], ["shutdown"], ["receive"]]
AND_BACK = [["receive"], ["send", COUNT, 2], ["close"]]


def talk_both_ways(stage, node, server, address, port, **how):
    mine, theirs = stage.talk(node, server, address, port, BOTH_WAYS, AND_BACK, **how)
    expect_stream(mine[0], theirs[0], "to the server")
    expect_stream(theirs[1], mine[2], "to the client")
