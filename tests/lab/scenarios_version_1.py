"""SMC-R version 1 over Soft-RoCE: between two proxies, and with the kernel in both roles. The kernel speaks version 1
from RoCEv1 GIDs only, which Soft-RoCE does not have. So its module is loaded with one changed comparison, that of the
GID's type. Nothing else in it is changed."""
import contextlib
import re
import struct
import subprocess

import kernel
from exchange import talk_both_ways
from expect import Failed, expect, expect_equal, wait_until
from scenario import scenario
from scenarios_interop import Way, both
from scenarios_wire import capture, dissect

ONE = {"smc": {"version": 1}}
# The port's first GID, which such a kernel uses: link-local, as those of RoCEv1 are.
FIRST_GID = {"gid_index": 0}
# A socket that was just closed may still be in use. Under load the kernel has kept one permanently.
SECONDS_TO_REMOVE = 5
SIGNATURE_MARK = b"~Module signature appended~\n"
ASKS_FOR_TYPE = re.compile(r"^\s*([0-9a-f]+):\s+83 f8 01\s+cmp ", re.M)  # with IB_GID_TYPE_ROCE


def without_signature(module):
    if not module.endswith(SIGNATURE_MARK):
        return module
    length, = struct.unpack(">I", module[-len(SIGNATURE_MARK) - 4:-len(SIGNATURE_MARK)])
    return module[:-len(SIGNATURE_MARK) - 12 - length]


def objdump(path, *arguments):
    return subprocess.run(["objdump", "-w", *arguments, path], capture_output=True, text=True, timeout=60,
                          check=True).stdout


def module_with_rocev2(stage):
    """The kernel's SMC, which accepts RoCEv2 GIDs for version 1."""
    path = stage.b.folder / "smc_version_1.ko"
    module = bytearray(without_signature(kernel.find(stage.say).module("smc")))
    path.write_bytes(module)
    found = ASKS_FOR_TYPE.findall(objdump(path, "-d", "--disassemble=smc_ib_determine_gid"))
    expect_equal(len(found), 1, "comparisons with the type RoCEv1")
    section = re.search(r" \.text\s+\S+\s+\S+\s+\S+\s+(\S+)", objdump(path, "-h"))
    at = int(section[1], 16) + int(found[0], 16)
    expect_equal(module[at:at + 3].hex(), "83f801", "the comparison in the file")
    module[at + 2] = 2  # IB_GID_TYPE_ROCE_UDP_ENCAP
    path.write_bytes(module)
    return path.name


@contextlib.contextmanager
def kernel_of_version_1(stage):
    """Node b's kernel offers and serves version 1 alone: without a UEID there is no other."""
    name = module_with_rocev2(stage)

    def remove():
        return stage.b.run(["/bin/sh", "-c", "modprobe -r smc_diag smc && echo gone"], check=False).strip() == "gone"

    def restart(why):
        stage.say(f"{why}; both nodes are switched off and on")
        stage.restart()

    try:
        wait_until(remove, "the module to go", SECONDS_TO_REMOVE)
    except Failed:
        restart("node b's kernel keeps its module")
        wait_until(remove, "the module to go after a boot")
    stage.b.run(["insmod", f"/tmp/results/{name}"])
    stage.b.run(["modprobe", "smc_diag"])
    try:
        yield
    finally:
        stage.b.stop_all(but=stage.lasting)
        try:
            wait_until(remove, "the changed module to go", SECONDS_TO_REMOVE)
        except Failed:
            restart("node b's kernel keeps the changed module")
        else:
            stage.b.run(["modprobe", "smc"])
            stage.b.run(["modprobe", "smc_diag"])
            stage.kernels["b"].tell("ueid", "add", stage.UEID)


def versions(proxy):
    return [(group["version"], group["ueid"]) for group in proxy.get_json("/linkgroups")["link_groups"]]


def expect_well_formed(path, least):
    """Checks that tshark finds every message of SMC-R in a capture complete; returns their names."""
    rows = [row.split("\t") for row in dissect(path, "-Y", "smc", "-T", "fields", "-e", "_ws.col.Info",
                                               "-e", "_ws.malformed").split("\n") if row]
    expect_equal([row for row in rows if row[1:] != [""]], [], "malformed messages")
    expect(len(rows) >= least, f"tshark sees only {len(rows)} messages: {rows[:5]}")
    return [row[0] for row in rows]


@scenario
def version_1_between_proxies(stage):
    """two proxies restricted to version 1; tshark finds every CLC, LLC and CDC message of theirs well-formed"""
    server, port = stage.serve(stage.a, "tcp")
    inbound, entry = stage.inbound(stage.a, port, ONE)
    outbound, out = stage.outbound(stage.b, stage.a.address, entry, ONE)
    with capture(stage, "version_1_between_proxies") as path:
        for _ in range(2):
            talk_both_ways(stage, stage.b, server, "127.0.0.1", out)
        for proxy in (inbound, outbound):
            proxy.expect_smcr(2)
            expect_equal(versions(proxy), [("1", "")], "link groups")
    names = " ".join(expect_well_formed(path, 20))
    for name in ("Proposal", "Accept", "Confirm", "Confirm Link", "CDC"):
        expect(name in names, f"tshark sees no {name}: {names[:300]}")


@both
def version_1_with_kernel(stage, role):
    """the kernel offers and serves version 1 alone: two connections in one group, ended by each side"""
    # A server that speaks both versions answers in version 1; a client offers it alone.
    options = {"smc": FIRST_GID if role == "server" else {**FIRST_GID, **ONE["smc"]}}
    with kernel_of_version_1(stage), capture(stage, f"version_1_{role}") as path:
        way = Way(stage, role, options)
        way.exchange(100_000)
        way.exchange(50_000, seed=3)
        way.expect_smcr(2, 150_000, version=1)
        expect_equal(versions(way.proxy), [("1", "")], "link groups")
        way.proxy.wait_idle()
    expect_well_formed(path, 20)
