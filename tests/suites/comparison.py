"""Outcomes of a suite directly and through two proxies, and their differences."""
import dataclasses
import fnmatch

from suite_base import FAILED, PASSED, WHOLE

SHOWN_MAX = 40  # lines of each kind in a report


@dataclasses.dataclass(frozen=True, order=True)
class Difference:
    unit: str
    check: str
    transport: str
    what: str


class Comparison:
    """The outcomes of one suite: {transport: {unit: {check: outcome}}}."""

    def __init__(self, suite):
        self.suite = suite
        self.outcomes = {}
        self.not_carried = []  # Difference: the proxies' counts say that it did not use the transport
        self.unsteady = set()  # (unit, check) that failed directly in a control
        self.once = set()  # Difference that did not occur again; only if that is requested

    def direct_checks(self):
        return {(unit, check): outcome for unit, checks in self.outcomes["direct"].items()
                for check, outcome in checks.items()}

    def units(self):
        """Units with a check that passes directly: only those can differ."""
        return [unit for unit, checks in self.outcomes["direct"].items() if PASSED in checks.values()]

    def failing_directly(self):
        return sorted(key for key, outcome in self.direct_checks().items() if outcome == FAILED)

    def raw_differences(self):
        """All differences. The failure of a whole unit is omitted if one of its checks is listed."""
        found = self.checks_that_differ()
        explained = {(each.unit, each.transport) for each in found if each.check != WHOLE}
        return sorted(each for each in found
                      if each.check != WHOLE or (each.unit, each.transport) not in explained)

    def checks_that_differ(self):
        found = []
        for (unit, check), outcome in self.direct_checks().items():
            for transport, outcomes in self.outcomes.items():
                if transport != "direct" and unit in outcomes and outcome == PASSED:
                    got = outcomes[unit].get(check, "did not run")
                    if got != PASSED:
                        found.append(Difference(unit, check, transport, got))
        return found

    def differences(self):
        """Differences without a known reason; must be empty."""
        return self.not_carried + [found for found in self.raw_differences()
                                   if (found.unit, found.check) not in self.unsteady
                                   and found not in self.once and self.reason(found) is None]

    def reason(self, found):
        return next((reason for unit, check, reason in self.suite.known
                     if unit == found.unit and fnmatch.fnmatchcase(found.check, check)), None)

    def expected(self):
        """(reason, difference) of differences with a known reason."""
        return [(reason, found) for found in self.raw_differences() if (reason := self.reason(found))]

    def needless(self):
        """Known differences that did not occur, by chance or permanently."""
        used = {(found.unit, reason) for reason, found in self.expected()}
        return [known for known in self.suite.known
                if known[0] in self.outcomes["direct"] and (known[0], known[2]) not in used]

    def different_units(self):
        return sorted({found.unit for found in self.differences()})

    def print_report(self):
        units, different = self.units(), self.different_units()
        checks = sum(outcome == PASSED for outcome in self.direct_checks().values())
        print(f"{self.suite.name:12} {len(units):6} {checks:7} {len(units) - len(different):6} "
              f"{len(different):10} {len(self.failing_directly()):7} {len(self.unsteady):9} "
              f"{len(self.expected()):6}")

    def print_details(self):
        lists = [
            ("different", [f"{d.unit}: {d.check}: {d.transport}: {d.what}" for d in self.differences()]),
            ("known difference", [f"{d.unit}: {d.check}: {d.transport}: {reason}"
                                  for reason, d in self.expected()]),
            ("did not differ this time", [": ".join(known) for known in self.needless()]),
            ("different once, not again", [f"{d.unit}: {d.check}: {d.transport}" for d in sorted(self.once)]),
            ("unsteady without proxies too", [f"{unit}: {check}" for unit, check in sorted(self.unsteady)]),
            ("not compared, fails directly", [f"{unit}: {check}" for unit, check in self.failing_directly()])]
        for title, lines in lists:
            for line in lines[:SHOWN_MAX]:
                print(f"{title}: {self.suite.name}: {line}")
            if len(lines) > SHOWN_MAX:
                print(f"{title}: {self.suite.name}: and {len(lines) - SHOWN_MAX} more")
