"""Reads /metrics of a proxy."""
import re


class Metrics:
    """One scrape of /metrics."""

    LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
    LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

    def __init__(self, text):
        self.samples = []
        for line in text.splitlines():
            match = self.LINE.match(line)
            if match:
                labels = dict(self.LABEL.findall(match.group(2) or ""))
                self.samples.append((match.group(1), labels, float(match.group(3))))

    def value(self, name, **labels):
        """Sum of all samples that have these labels."""
        found = [value for sample, have, value in self.samples
                 if sample == name and labels.items() <= have.items()]
        if not found:
            raise AssertionError(f"no metric {name} {labels}")
        return sum(found)

    def connections(self, transport, **labels):
        return self.value("fairlead_connections_total", transport=transport, **labels)

    def active(self):
        return self.value("fairlead_connections_active")

    def fallbacks(self):
        """{(reason, side): count} of the fallbacks."""
        counts = {}
        for name, labels, value in self.samples:
            if name == "fairlead_fallback_total" and value:
                key = (labels["reason"], labels["side"])
                counts[key] = counts.get(key, 0) + int(value)
        return counts
