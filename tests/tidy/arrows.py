"""Which folder may include which, and where foreign libraries live."""
import re

import source_tree

# Layer: the layers that its files may include, besides its own. CONTRIBUTING.md and docs/architecture.md show the same rows.
ARROWS = {
    "base": [],
    "wire": ["base"],
    "smc": ["wire", "base"],
    "broker": ["base"],
    "rdma": ["broker", "base"],
    "event": ["base"],
    "exposition": ["base"],
    "json": ["base"],
    "bpf": ["base"],
    "config": ["base"],
    "relay": ["smc", "wire", "rdma", "event", "bpf", "config", "base"],
    "parking": ["relay", "event", "base"],
    "devices": ["relay", "admin", "smc", "wire", "rdma", "broker", "event", "config", "base"],
    "app": ["devices", "parking", "relay", "admin", "smc", "wire", "rdma", "broker", "event", "exposition", "bpf", "config",
            "base"],
    "admin": ["event", "exposition", "config", "base"],
    "cni": ["parking", "bpf", "broker", "event", "exposition", "json", "base"],
    "injector": ["event", "exposition", "json", "base"],
    "ctl": ["parking", "admin", "cni", "injector", "event", "exposition", "json", "base"],
}
# Folders beside the layers whose sources may include every layer.
OTHER_FOLDERS = ("tests/", "cmake/")
# Parts of a layer, and the only folders that may include them. The node and fairleadctl know a keeper's records, but
# nothing of what a proxy describes in them.
DESCRIBING = ("proxy/parking/", "proxy/app/")
CHOOSING = ("proxy/devices/", "proxy/app/")
PARTS = {
    "rdma/verbs/": ("proxy/rdma/verbs/", *CHOOSING),
    "rdma/shm/": ("proxy/rdma/shm/", *CHOOSING),
    "parking/description": DESCRIBING,
}

# Beginning of a foreign include: the paths under proxy/, cni/ and injector/ that may have it.
HOMES = {
    "infiniband/": ["proxy/rdma/verbs/"],
    "rdma/": ["proxy/rdma/verbs/", "cni/node/agent/inventory.cc"],
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
# What is at home everywhere: the kernel's and the C library's folders, and the type of results.
EVERYWHERE = ("sys/", "linux/", "netinet/", "arpa/", "net/", "tl/")

# wire and smc perform no I/O and ask nobody for the time.
PURE_LAYERS = ("proxy/wire/", "proxy/smc/")
IMPURE_INCLUDES = re.compile(
    r"^(sys/|netinet/|arpa/|net/|linux/|unistd\.h|fcntl\.h|poll\.h|pthread\.h|thread$|mutex$|"
    r"shared_mutex$|condition_variable$|future$|iostream$|fstream$|filesystem$|ctime$|time\.h|"
    r"random$|base/log\.h|base/linux/|base/stats\.h)")
IMPURE_CALLS = re.compile(
    r"_clock::now\b|\bclock_gettime\b|\bgettimeofday\b|\bgetrandom\b|\brandom_device\b|\bstd::thread\b|"
    r"\bprintf\s*\(|\bstd::c(out|err)\b")


def layer_of(path):
    match = re.match(r"(?:proxy/)?(\w+)/", path)
    return match.group(1) if match else path


def check_arrows(tree):
    """A layer includes only the layers that its arrow reaches. Every source belongs to a layer."""
    for path, text in source_tree.cxx(tree, but=OTHER_FOLDERS):
        layer = layer_of(path)
        if layer not in ARROWS:
            yield path, 1, f"{layer} is no layer of ARROWS"
            continue
        for line, name, foreign in source_tree.includes(text):
            if not foreign and "/" in name:
                yield from judge_include(path, layer, line, name)


def judge_include(path, layer, line, name):
    target = name.split("/")[0]
    if target not in ARROWS:
        yield path, line, f"{name} is of no layer of ARROWS"
    elif target != layer and target not in ARROWS[layer]:
        yield path, line, f"{layer} may not include {name}"
    for part, folders in PARTS.items():
        if name.startswith(part) and not path.startswith(folders):
            yield path, line, f"only files of {' and '.join(folders)} may include {name}"


def lines_of_layers(text):
    """(line, columns) of the rows below the heading "Layers". Columns are two blanks or an arrow apart."""
    first = text[:text.index("## Layers\n")].count("\n") + 2
    section = text.split("## Layers\n")[1].split("\n## ")[0]
    for number, line in enumerate(section.split("\n"), first):
        yield number, line, re.split(r"\s*──►\s*| {2,}", line.strip())


def rows_of_contributing(text):
    """(line, layer, names of layers) of the indented rows, whose last column has the names."""
    for number, line, columns in lines_of_layers(text):
        if line.startswith("    "):
            yield number, columns[0], columns[-1].removeprefix("may include ")


def rows_of_architecture(text):
    """(line, layer, names of layers) of the picture's rows. Indented lines go on with what a layer is."""
    inside = False
    for number, line, columns in lines_of_layers(text):
        if line.startswith("```"):
            inside = not inside
        elif inside and not line.startswith(" "):
            yield number, columns[0], columns[1] if "──►" in line else ""


TABLES = {"CONTRIBUTING.md": rows_of_contributing, "docs/architecture.md": rows_of_architecture}


def check_layers(tree):
    """What documents say about layers is what ARROWS has, and each layer has sources."""
    for path, rows in TABLES.items():
        seen = set()
        for line, layer, words in rows(tree[path]) if "## Layers\n" in tree.get(path, "") else ():
            seen.add(layer)
            names = re.findall(r"\w+", words)
            if layer not in ARROWS:
                yield path, line, f"{layer} is no layer of ARROWS"
            elif set(names) != set(ARROWS[layer]):
                expected = ", ".join(ARROWS[layer]) or "nothing"
                yield path, line, f"{layer} may include {expected}, not {', '.join(names) or 'nothing'}"
        if path in tree:
            for layer in ARROWS:
                if layer not in seen:
                    yield path, 1, f"its table of layers has no row for {layer}"
    used = {layer_of(path) for path, _ in source_tree.cxx(tree)}
    for layer in ARROWS if "tests/tidy/arrows.py" in tree else ():
        if layer not in used:
            yield "tests/tidy/arrows.py", 1, f"there are no sources of {layer}"


ROOMS = "| folder | what is there |\n"


def rooms_of_architecture(text):
    """(line, folder) of the table of rooms. The names behind the first one of a row are its siblings."""
    if ROOMS not in text:
        return
    before, table = text.split(ROOMS, 1)
    for number, row in enumerate(table.split("\n\n")[0].split("\n"), before.count("\n") + 2):
        names = re.findall(r"`([\w/]+)`", row.split("|")[1])
        for name in names:
            yield number, name if name == names[0] else f"{names[0].rpartition('/')[0]}/{name}"


def is_room(folder):
    """A layer is a folder of proxy/, cni or injector. What is below is a room."""
    return folder.count("/") > (1 if folder.startswith("proxy/") else 0)


def check_rooms(tree):
    """docs/architecture.md has the folders within layers, and no others."""
    page = "docs/architecture.md"
    used = {path.rpartition("/")[0] for path, _ in source_tree.cxx(tree, ("proxy/", "cni/", "injector/"))}
    shown = {folder: line for line, folder in rooms_of_architecture(tree.get(page, ""))}
    for folder, line in shown.items():
        if folder not in used:
            yield page, line, f"there are no sources in {folder}"
    for folder in sorted(used) if page in tree else ():
        has_rooms = any(room.startswith(folder + "/") for room in shown)
        if is_room(folder) and folder not in shown and not has_rooms:
            yield page, 1, f"its table of rooms has no {folder}"


def check_homes(tree):
    """A foreign library is included in its home folder only."""
    for path, text in source_tree.cxx(tree, but="tests/"):
        for line, name, foreign in source_tree.includes(text):
            if not foreign or name.startswith(EVERYWHERE):
                continue
            homes = [folders for beginning, folders in HOMES.items() if name.startswith(beginning)]
            if not homes and "/" in name and not path.startswith("cmake/"):
                yield path, line, f"<{name}> has no home in HOMES"
            for folders in homes:
                if not path.startswith(tuple(folders)):
                    yield path, line, f"<{name}> belongs into {' or '.join(folders)}"


def check_pure_layers(tree):
    """wire and smc have no system call, clock, thread or log."""
    for path, text in source_tree.cxx(tree, PURE_LAYERS):
        for line, name, _ in source_tree.includes(text):
            if IMPURE_INCLUDES.match(name):
                yield path, line, f"{name} has no place in a pure layer"
        for number, line in enumerate(source_tree.code_only(text).split("\n"), 1):
            if match := IMPURE_CALLS.search(line):
                yield path, number, f"{match.group(0)} has no place in a pure layer"
