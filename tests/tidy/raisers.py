"""Nothing is documented that never happens: reasons are given, counters written, metrics and facts filled."""
import re

import source_tree

REASONS = "proxy/base/fallback.h"
REASON_TABLE = "proxy/base/fallback.cc"
COUNTERS = "proxy/base/stats.h"
CATALOGUE = "proxy/admin/metric_catalog.cc"
SAMPLES = "proxy/admin/metrics.cc"
FACTS = "proxy/admin/sources.h"
# They read counters, and write none.
READERS = ("proxy/admin/", "proxy/ctl/", COUNTERS, "proxy/base/stats.cc")


def block(text, opening):
    """What stands in the braces behind `opening`."""
    begin = text.find(opening)
    return source_tree.code_only(text[begin:text.find("\n};", begin)]) if begin >= 0 else ""


def code_of(tree, excuse):
    return "\n".join(source_tree.code_only(text) for path, text in tree.items()
                     if path.startswith("proxy/") and path.endswith((".h", ".cc")) and not path.startswith(excuse))


def check_reasons(tree):
    """A condition gives each reason, or the table says that only peers do."""
    names = re.findall(r"^\s*(k\w+),", block(tree.get(REASONS, ""), "enum class FallbackReason"), re.M)
    table = source_tree.code_only(tree.get(REASON_TABLE, ""))
    peers = set(re.findall(r"\bpeers\(R::(k\w+)", table))
    # Functions behind the table give reasons too.
    used = code_of(tree, (REASONS, REASON_TABLE)) + table[table.find("fallback_reason_count"):]
    given = set(re.findall(r"\b(?:FallbackReason|R)::(k\w+)", used))
    for name in names:
        if name not in given | peers:
            yield REASONS, 1, f"{name}: nothing gives this reason; see peers() in fallback.cc"
        if name in given & peers:
            yield REASON_TABLE, 1, f"{name}: a condition gives this reason, not peers only"


def check_counters(tree):
    """Something writes each counter of a worker."""
    code = code_of(tree, READERS)
    members = block(tree.get(COUNTERS, ""), "struct WorkerStats {").split("Counter& ")[0]
    for declared in re.findall(r"^\s*(?:Counter|Histogram|std::array<.*>)\s([\w,\s]+);", members, re.M):
        for name in re.findall(r"\w+", declared):
            accessor = rf"|\b{name}_of\b"
            if not re.search(rf"\b{name}\b{accessor}", code):
                yield COUNTERS, 1, f"{name}: nothing writes this counter"


def check_metrics(tree):
    """Each metric of the catalogue gets samples, and each fact with a name has a source."""
    samples = source_tree.code_only(tree.get(SAMPLES, ""))
    for name in re.findall(r"\bM::(k\w+)", source_tree.code_only(tree.get(CATALOGUE, ""))):
        if not re.search(rf"\bMetric::{name}\b", samples):
            yield CATALOGUE, 1, f"{name}: nothing samples this metric"
    code = code_of(tree, ("proxy/admin/",))
    for name in re.findall(r"\b(kFact\w+)\b", source_tree.code_only(tree.get(FACTS, ""))):
        if not re.search(rf"\b{name}\b", code):
            yield FACTS, 1, f"{name}: nothing states this fact"
