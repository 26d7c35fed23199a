#!/usr/bin/env python3
"""Two virtual machines as nodes of a cluster, each with an RNIC, and Fairlead installed as users do.

    tests/two_nodes/run.py [--only NAME …]     all checks, or those whose names have a NAME in them
    tests/two_nodes/run.py --list              name the checks
    tests/two_nodes/run.py --shell             afterwards read lines "1 COMMAND", "2 COMMAND" or "kubectl …"

Exit codes: 0 success, 1 failure, 77 it cannot run here (the last line gives the reason).
"""
import argparse
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS / "lab"), str(TESTS / "kubernetes"), str(TESTS)]

import checks  # pylint: disable=wrong-import-position
import checks_access  # noqa: F401,E402  an import registers the checks in it
import checks_paths  # noqa: F401,E402
import checks_docs  # noqa: F401,E402
import checks_claims  # noqa: E402
import checks_life  # noqa: F401,E402
import kernel  # noqa: E402
import place  # noqa: E402
from console import SKIPPED, end_on_signals, play, say  # noqa: E402
from node import LabError, ROOT  # noqa: E402
from shop import BETWEEN, ON_NODE, Shop, TCP  # noqa: E402


def set_up(stage):
    """The applications start first, as in a cluster to which Fairlead is added."""
    stage.shop.deploy()
    stage.say("the applications run")
    stage.place.install("install")
    stage.cluster.kubectl("label", "namespace", "shop", "fairlead.io/inject=enabled")
    stage.shop.restart()
    stage.say("the applications have sidecars")


def shell(stage):
    print('type "1 COMMAND", "2 COMMAND" or "kubectl …"; end with ctrl-D', flush=True)
    for line in sys.stdin:
        first, _, rest = line.strip().partition(" ")
        try:
            if first == "kubectl":
                print(stage.cluster.in_node("sh", "-c", f"KUBECONFIG={stage.cluster.config} "
                                            f"{stage.cluster.programs['kubectl']} {rest} 2>&1"), flush=True)
            elif first in ("1", "2"):
                print(stage.nodes[int(first) - 1].run(["/bin/sh", "-c", rest], 300, check=False), flush=True)
        except (LabError, AssertionError) as error:
            print(error, flush=True)


def run(arguments):
    chosen = [function for function in checks.CHECKS
              if not arguments.only or any(name in function.__name__ for name in arguments.only)]
    cluster = place.Place(arguments.folder, say)
    try:
        cluster.start()
        stage = checks.Stage(cluster, Shop(cluster.cluster))
        set_up(stage)
        failed = [check.__name__ for check in chosen if not play(check, stage, (LabError, AssertionError))]
        if arguments.shell:
            shell(stage)
    finally:
        cluster.close()
    if failed:
        print(f"two-nodes: FAILED {' '.join(failed)}")
        return 1
    counts = stage.shop.counts
    print(f"two-nodes: OK nodes=2 smcr_between_nodes={counts[BETWEEN]} smcr_on_node={counts[ON_NODE]} tcp={counts[TCP]} "
          f"rnic_access={'nri,claim' if checks_claims.claims in chosen else 'nri'}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build/two_nodes")
    parser.add_argument("--shell", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        for function in checks.CHECKS:
            print(f"{function.__name__}: {function.__doc__}")
        return 0
    arguments.folder = arguments.folder.resolve()
    end_on_signals()
    if why := place.why_not():
        print(f"two-nodes: cannot run here: {why}")
        return SKIPPED
    try:
        return run(arguments)
    except kernel.Unavailable as error:
        print(f"two-nodes: cannot run here: {error}")
        return SKIPPED
    except (LabError, AssertionError) as error:
        print(f"two-nodes: FAILED before the checks: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
