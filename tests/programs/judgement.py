"""What a program found through proxies, beside what it found directly."""
import dataclasses

# A retransmission timer of Linux is 200 ms at least. So an answer that waited for one is told from a busy machine.
LATE_SECONDS = 0.15
LOSSES = ("TCPTimeouts", "TCPRcvQDrop", "RcvPruned")


@dataclasses.dataclass
class Findings:
    """Of one program over one way."""
    results: dict         # what must be the same on every way
    errors: int           # that the program has counted
    rate: float
    unit: str
    tail_seconds: float | None = None  # the longest wait, or a high percentile, as the program tells
    losses: dict = dataclasses.field(default_factory=dict)  # {name: count} of the kernel


def differences(direct, other):
    """Sentences, none if `other` is as good. A rate is no difference: the machine is shared."""
    found = [f"{name} is {other.results.get(name)!r}, directly {value!r}"
             for name, value in direct.results.items() if other.results.get(name) != value]
    found += [f"{name} is {value!r}, directly nothing" for name, value in other.results.items() if name not in direct.results]
    if other.errors > direct.errors:
        found.append(f"{other.errors} errors, directly {direct.errors}")
    if direct.tail_seconds is not None and other.tail_seconds is not None:
        if other.tail_seconds > direct.tail_seconds + LATE_SECONDS:
            found.append(f"the tail is {other.tail_seconds * 1000:.1f} ms, directly {direct.tail_seconds * 1000:.1f} ms")
    found += [f"{name} {other.losses.get(name, 0)}, directly {direct.losses.get(name, 0)}"
              for name in LOSSES if other.losses.get(name, 0) > direct.losses.get(name, 0)]
    return found
