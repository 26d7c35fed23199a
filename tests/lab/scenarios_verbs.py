"""The device behind SMC-R: the conformance suite on Soft-RoCE, in one guest."""
from expect import expect
from node import BUILD
from scenario import scenario

SECONDS_MAX = 240


@scenario
def verbs_conformance(stage):
    """the verbs device passes the conformance suite on Soft-RoCE"""
    program = BUILD / "tests/conformance/verbs_conformance_test"
    output = stage.a.run([program, "--gtest_color=no"], timeout=SECONDS_MAX)
    expect("[  PASSED  ]" in output and "no RDMA device" not in output, output[-1500:])
