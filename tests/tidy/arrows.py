"""Which folder may include which, and where foreign libraries live."""
import re

import source_tree

# Layer: the layers that its files may include, besides its own.
ARROWS = {
    "base": [],
    "wire": ["base"],
    "smc": ["wire", "base"],
    "broker": ["base"],
    "rdma": ["broker", "base"],
    "event": ["base"],
    "exposition": ["base"],
    "json": [],
    "bpf": ["base"],
    "config": ["base"],
    "relay": ["smc", "wire", "rdma", "event", "bpf", "config", "base"],
    "devices": ["relay", "admin", "smc", "wire", "rdma", "broker", "event", "config", "base"],
    "app": ["devices", "relay", "admin", "smc", "wire", "rdma", "broker", "event", "exposition", "bpf", "config", "base"],
    "admin": ["event", "exposition", "config", "base"],
    "cni": ["bpf", "broker", "event", "exposition", "json", "base"],
    "injector": ["event", "exposition", "json", "base"],
    "ctl": ["admin", "cni", "injector", "event", "exposition", "json", "base"],
}
# Folders inside a layer that only the folder itself and those that choose implementations may name.
IMPLEMENTATIONS = ("rdma/verbs/", "rdma/shm/")
CHOOSING = ("proxy/devices/", "proxy/app/")

# Beginning of a foreign include: the paths under proxy/, cni/ and injector/ that may have it.
HOMES = {
    "infiniband/": ["proxy/rdma/verbs/"],
    "rdma/": ["proxy/rdma/verbs/", "cni/node/inventory.cc"],
    "netlink/": ["proxy/rdma/verbs/"],
    "event2/": ["proxy/event/"],
    "event.h": ["proxy/event/"],
    "openssl/": ["proxy/event/", "injector/"],
    "yaml-cpp/": ["proxy/config/", "injector/manifest.cc"],
    "prometheus/": ["proxy/exposition/"],
    "google/protobuf": ["cni/node/nri/"],
    "nlohmann/": ["proxy/json/", "proxy/admin/", "proxy/ctl/", "proxy/event/https/", "cni/", "injector/",
                  "cmake/"],
    "bpf/": ["proxy/bpf/"],
    "spdlog/": ["proxy/base/log.cc"],
    "fmt/": ["proxy/base/log.cc"],
    "CLI/": ["proxy/app/main.cc", "proxy/app/command_line.cc", "proxy/ctl/", "cni/", "injector/",
             "cmake/"],
}

# wire and smc perform no I/O and ask nobody for the time.
PURE_LAYERS = ("proxy/wire/", "proxy/smc/")
IMPURE_INCLUDES = re.compile(
    r"^(sys/|netinet/|arpa/|net/|linux/|unistd\.h|fcntl\.h|poll\.h|pthread\.h|thread$|mutex$|"
    r"shared_mutex$|condition_variable$|future$|iostream$|fstream$|filesystem$|ctime$|time\.h|"
    r"random$|base/log\.h|base/handle\.h|base/stats\.h)")
IMPURE_CALLS = re.compile(
    r"_clock::now\b|\bclock_gettime\b|\bgettimeofday\b|\bgetrandom\b|\brandom_device\b|\bstd::thread\b|"
    r"\bprintf\s*\(|\bstd::c(out|err)\b")


def layer_of(path):
    match = re.match(r"(?:proxy/)?(\w+)/", path)
    return match.group(1) if match else None


def check_arrows(tree):
    """A layer includes only the layers that its arrow reaches."""
    for path, text in tree.items():
        layer = layer_of(path)
        if not path.endswith(source_tree.CXX_SUFFIXES) or layer not in ARROWS:
            continue
        for line, name, foreign in source_tree.includes(text):
            target = name.split("/")[0]
            if foreign or "/" not in name or target not in ARROWS:
                continue
            if target != layer and target not in ARROWS[layer]:
                yield path, line, f"{layer} may not include {name}"
            for folder in IMPLEMENTATIONS:
                if name.startswith(folder) and not path.startswith(("proxy/" + folder, *CHOOSING)):
                    yield path, line, f"only files of {' and '.join(CHOOSING)} may include {name}"


def check_homes(tree):
    """A foreign library is included in its home folder only."""
    for path, text in tree.items():
        if not path.endswith(source_tree.CXX_SUFFIXES) or path.startswith("tests/"):
            continue
        for line, name, foreign in source_tree.includes(text):
            for beginning, homes in HOMES.items():
                if foreign and name.startswith(beginning) and not path.startswith(tuple(homes)):
                    yield path, line, f"<{name}> belongs into {' or '.join(homes)}"


def check_pure_layers(tree):
    """wire and smc have no system call, clock, thread or log."""
    for path, text in tree.items():
        if not path.startswith(PURE_LAYERS) or not path.endswith(source_tree.CXX_SUFFIXES):
            continue
        for line, name, _ in source_tree.includes(text):
            if IMPURE_INCLUDES.match(name):
                yield path, line, f"{name} has no place in a pure layer"
        for number, line in enumerate(source_tree.code_only(text).split("\n"), 1):
            if match := IMPURE_CALLS.search(line):
                yield path, number, f"{match.group(0)} has no place in a pure layer"
