"""The lab checks itself: two kernels without Fairlead between them."""
from exchange import talk_both_ways
from expect import expect, expect_equal, wait_until
from kernel_smc import Change
from scenario import scenario

COUNT = 300_000


def kernels_agree(stage, server, port):
    """One connection between the two kernels was SMC-R."""
    a = Change(stage.kernels["a"])
    stage.talk(stage.a, server, stage.b.address, port, family="smc",
               mine=[["send", 1, 1], ["shutdown"], ["receive"]], theirs=[["receive"], ["close"]])
    return a.look()["client_v2"] == 1


@scenario
def kernel_to_kernel(stage):
    """two kernels speak SMC-R with each other, by their own statistics"""
    server, port = stage.serve(stage.b, "smc")
    # After earlier changes of their devices, a first contact may fail.
    wait_until(lambda: kernels_agree(stage, server, port), "the kernels to speak SMC-R")
    a, b = Change(stage.kernels["a"]), Change(stage.kernels["b"])
    talk_both_ways(stage, stage.a, server, stage.b.address, port, COUNT, family="smc")
    client, serving = a.look(), b.look()
    expect_equal(client["client_v2"], 1, "SMC-Rv2 connections of the client")
    expect_equal(serving["server_v2"], 1, "SMC-Rv2 connections of the server")
    expect(client["sent_bytes"] >= COUNT and serving["received_bytes"] >= COUNT, "bytes by SMC-R")
    expect_equal((client["reasons"], serving["reasons"]), ({}, {}), "fallbacks")


@scenario
def kernel_by_preload(stage):
    """an unchanged program on AF_SMC by preload: curl and a kernel server"""
    server, port = stage.serve(stage.b, "smc")
    a = Change(stage.kernels["a"])
    preload = {"LD_PRELOAD": str(stage.kernels["a"].TOOL.parent / "libsmc_preload.so")}
    stage.a.run(["curl", "-s", "-m", "3", "telnet://%s:%d" % (stage.b.address, port)],
                environment=preload, check=False, timeout=30)
    expect_equal(a.look()["client_v2"], 1, "SMC-Rv2 connections of curl")
    expect(server.running, "the server has died")


@scenario
def tcp_to_kernel(stage):
    """a client without SMC reaches a kernel server, which falls back"""
    server, port = stage.serve(stage.b, "smc")
    b = Change(stage.kernels["b"])
    talk_both_ways(stage, stage.a, server, stage.b.address, port, COUNT)
    expect_equal(b.look()["reasons"], {("server", 0x03010000): 1}, "reasons of the kernel")
