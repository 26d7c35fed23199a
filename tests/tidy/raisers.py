"""Nothing is documented that never happens: reasons are given, counters written, metrics, rows and facts filled."""
import re

import source_tree

REASONS = "proxy/base/fallback.h"
REASON_TABLE = "proxy/base/fallback.cc"
COUNTERS = "proxy/base/stats.h"
ROWS = "proxy/base/snapshot.h"
LLC = "proxy/wire/llc.h"
FACTS = "proxy/admin/sources.h"
HOST_FACTS = "proxy/ctl/local_checks.h"
CLUSTER_FACTS = "proxy/ctl/cluster/cluster_facts.h"
# Catalogue of a program's metrics, its enumeration, and the folder with the samples.
CATALOGUES = {
    "proxy/admin/metric_catalog.cc": ("Metric", "proxy/admin/"),
    "cni/node/agent/agent_metric_table.cc": ("AgentMetric", "cni/node/"),
    "injector/injector_metrics.cc": ("InjectorMetric", "injector/"),
}
# They show reasons and counters, and neither give nor write any.
READERS = ("proxy/admin/", "proxy/ctl/", COUNTERS, "proxy/base/stats.cc")
# Reasons that only a peer gives, each because its condition cannot arise here.
PEERS_ONLY = {
    "kAddLinkTimeout": "a first contact does not wait for its second link",
    "kNoSmcdDevice": "SMC-D", "kNoIsmV2": "SMC-D", "kNoSmcdV2Extension": "SMC-D", "kNoSeid": "SMC-D",
    "kNoSmcdV2Device": "SMC-D", "kIsmVlan": "SMC-D", "kSmcdBufferLimit": "SMC-D",
    "kNoV2Extension": "the decoder refuses such a Proposal",
    "kUnsupportedOption": "options of the application's socket stay on its own connection",
    "kInternal": "errors of our own are assertions",
    "kRkey": "a connection does not need its peer's RMB in a table",
}
# What a mention of a reason is when it gives none: a text, a comparison, a value to begin with.
MENTIONS = re.compile(r"\bfallback_info\(\s*(?:FallbackReason|R)::k\w+\s*\)|[!=]=\s*(?:FallbackReason|R)::k\w+"
                      r"|\bFallbackReason \w+ = FallbackReason::k\w+;")
# Reasons of DELETE_LINK that only answers carry, or that stand for none.
ANSWERS_ONLY = {"kUnknownGroup": "a request reaches its group, or nobody", "kOk": "done"}


def block(text, opening):
    """What stands in the braces behind `opening`."""
    begin = text.find(opening)
    return source_tree.code_only(text[begin:text.find("\n};", begin)]) if begin >= 0 else ""


def code_of(tree, excuse=(), folders=("proxy/",)):
    return "\n".join(source_tree.code_only(text) for _, text in source_tree.cxx(tree, folders, excuse))


def members_of(body):
    """Names of the data members in the braces of a struct."""
    for line in body.splitlines()[1:]:
        declared = re.match(r"\s+(?:static )?[\w:<>,\s*&]*?[\w>*&]\s+(\w[^;()]*);", line)
        if not declared or line.lstrip().startswith(("friend", "using", "return", "static constexpr")):
            continue
        for part in declared[1].split(","):
            yield re.match(r"\s*(\w+)", part)[1]


def check_reasons(tree):
    """A condition gives each reason, or the table says that only peers do, for a cause that is listed."""
    names = re.findall(r"^\s*(k\w+),", block(tree.get(REASONS, ""), "enum class FallbackReason"), re.M)
    table = source_tree.code_only(tree.get(REASON_TABLE, ""))
    peers = set(re.findall(r"\bpeers\(R::(k\w+)", table))
    # Functions behind the table give reasons too.
    used = code_of(tree, (REASONS, REASON_TABLE, *READERS)) + table[table.find("fallback_reason_count"):]
    given = set(re.findall(r"\b(?:FallbackReason|R)::(k\w+)", MENTIONS.sub("", used)))
    for name in names:
        if name not in given | peers:
            yield REASONS, 1, f"{name}: nothing gives this reason; see peers() in fallback.cc"
        elif name in given & peers:
            yield REASON_TABLE, 1, f"{name}: a condition gives this reason, not peers only"
        elif name in peers and name not in PEERS_ONLY:
            yield REASON_TABLE, 1, f"{name}: why can its condition not arise here? see PEERS_ONLY in raisers.py"
    for name in sorted(PEERS_ONLY.keys() - peers) if names else ():
        yield REASON_TABLE, 1, f"{name}: PEERS_ONLY in raisers.py lists it, and it is not one of peers()"


def check_delete_reasons(tree):
    """Each reason of DELETE_LINK is sent."""
    used = re.sub(r"[!=]=\s*(?:wire::)?DeleteLinkReason::k\w+", "", code_of(tree, (LLC,)))
    for name in re.findall(r"^\s*(k\w+) =", block(tree.get(LLC, ""), "enum class DeleteLinkReason"), re.M):
        if name not in ANSWERS_ONLY and not re.search(rf"\bDeleteLinkReason::{name}\b", used):
            yield LLC, 1, f"{name}: nothing sends a DELETE_LINK for this reason"


def written(name, code):
    """A statement changes the counter, takes a reference to it, or names it for one that does."""
    change = r"\.(?:add|sub|set|observe)\("
    for mention in re.finditer(rf"\b{name}\b", code):
        begin = max(code.rfind(mark, 0, mention.start()) for mark in ";{}") + 1
        end = min(at for at in (code.find(";", mention.end()), code.find("{", mention.end()), len(code)) if at >= 0)
        statement = code[begin:end]
        if re.search(change, code[mention.end():end]) or re.search(r"\bCounter\s*[&*]|&WorkerStats::|return", statement):
            return True
    return False


def check_counters(tree):
    """Something writes each counter of a worker."""
    code = code_of(tree, READERS)
    members = block(tree.get(COUNTERS, ""), "struct WorkerStats {")
    for declared in re.findall(r"^\s*(?:Counter|Histogram|EnumArray<[^;]*>)\s+([\w,\s]+);", members, re.M):
        for name in re.findall(r"\w+", declared):
            if not written(name, code):
                yield COUNTERS, 1, f"{name}: nothing writes this counter"


def check_metrics(tree):
    """Each metric of a catalogue gets samples."""
    for catalogue, (enumeration, folder) in CATALOGUES.items():
        samples = re.sub(r"Info\{\s*M::k\w+|\bis_complete\([^)]*\)", "", code_of(tree, (), (folder,)))
        for name in re.findall(r"Info\{\s*M::(k\w+)", source_tree.code_only(tree.get(catalogue, ""))):
            if not re.search(rf"\b(?:{enumeration}|M)::{name}\b", samples):
                yield catalogue, 1, f"{name}: nothing samples this metric"


def check_facts(tree):
    """Each fact has a source: those with a name, the columns of tables, what doctor and check look at."""
    code = code_of(tree, ("proxy/admin/",))
    for name in re.findall(r"\b(kFact\w+)\b", source_tree.code_only(tree.get(FACTS, ""))):
        if not re.search(rf"\b{name}\b", code):
            yield FACTS, 1, f"{name}: nothing states this fact"
    for path, sources, kinds in ((ROWS, code_of(tree, READERS), r"struct (\w+(?:Row|Snapshot)) \{"),
                                 (HOST_FACTS, code_of(tree, (), ("proxy/ctl/",)), r"struct (\w+Facts) \{"),
                                 (CLUSTER_FACTS, code_of(tree, (), ("proxy/ctl/cluster/",)), r"struct (\w+Facts) \{")):
        text = tree.get(path, "")
        for kind in re.findall(kinds, text):
            for name in members_of(block(text, f"struct {kind} {{")):
                if not re.search(rf"(?:\.|->){name}(?: =[^=]|\.(?:push_back|emplace_back|assign|insert)\()", sources):
                    yield path, 1, f"{kind}::{name}: nothing fills it"
