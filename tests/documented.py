"""Blocks of commands in the documents, as a reader types them.

A test that runs commands of a page takes them from here: `commands("docs/check.md", "Rights")`, or block by block with
`groups`. tests/tidy/commands.py finds such calls, and so knows the blocks that a test runs.
"""
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SHELLS = ("sh", "bash", "shell", "console")
PROMPT = re.compile(r"^\w*\$ ")  # also "client$ ", where a page tells which pod the command runs in
# First words that make a block without a language one of commands; and files of this tree that can be run.
PROGRAMS = frozenset(
    "apt apt-get buildah cat chmod cmake cp crictl ctest ctr curl docker etcdctl fairlead-cni fairlead-injector fairlead-node "
    "fairlead-proxy fairleadctl gcc git go grep helm ibv_devinfo ip iptables kill kubectl ln ls make mkdir modprobe mount "
    "nft nsenter oc perf ping pip podman python python3 rdma redis-cli redis-server rm sed skopeo sudo sysctl systemctl tar "
    "tcpdump unshare wget".split())
RUNNABLE = re.compile(r"(?:\./)?(?:\.ci|build|docker|scripts|tests)/\S+")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*\s+")


class Command(NamedTuple):
    line: int
    text: str  # without prompt, comment and continuation
    comment: str


class Block(NamedTuple):
    line: int
    heading: str
    commands: list
    shown: list  # lines of the answers, in a block with prompts
    before: str  # the paragraph that leads to the block, HTML comments included


def is_command(line):
    rest = re.sub(rf"^(?:{ASSIGNMENT.pattern})+", "", line)
    word = (rest.split() or [""])[0]
    return rest != line or word.rpartition("/")[2] in PROGRAMS or bool(RUNNABLE.fullmatch(word))


def parsed(language, lines):
    """(commands, shown) of a block; `lines` are (number, text). Without a language, the first line decides."""
    prompts = any(PROMPT.match(text) for _, text in lines)
    first = next((text for _, text in lines if text.strip()), "")
    if not prompts and language not in SHELLS and not is_command(first):
        return [], []
    commands, shown, pending = [], [], None
    for number, text in lines:
        if pending:
            number, text = pending[0], pending[1] + " " + text.strip()
            pending = None
        elif prompts and not PROMPT.match(text):
            shown.append(text)
            continue
        if text.endswith("\\"):
            pending = number, text[:-1].rstrip()
            continue
        # A comment, or a column of explanations behind two spaces.
        words, _, comment = re.sub(r"\s+#\s|\s{2,}", "\0", PROMPT.sub("", text).strip(), count=1).partition("\0")
        if words and not words.startswith("#"):
            commands.append(Command(number, words, comment))
    return commands, shown


def raw_blocks(lines):
    """(index of the first line, index behind the last, language, index of the first line of text)"""
    index = 0
    while index < len(lines):
        fence = re.match(r"\s*(```+|~~~+)\s*(\w*)", lines[index])
        end = index + 1
        if fence:
            while end < len(lines) and not lines[end].strip().startswith(fence[1]):
                end += 1
            yield index, min(end + 1, len(lines)), fence[2], index + 1
            index = end + 1
        elif lines[index].startswith("    ") and (index == 0 or not lines[index - 1].strip()):
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            yield index, end, "", index
            index = end
        else:
            index += 1


def paragraph_before(lines, index):
    """The paragraph that ends above line `index`, empty lines between them or not."""
    end = index
    while end and not lines[end - 1].strip():
        end -= 1
    begin = end
    while begin and lines[begin - 1].strip() and not lines[begin - 1].lstrip().startswith(("#", "```")):
        begin -= 1
    return " ".join(line.strip() for line in lines[begin:end])


def blocks(text):
    """Each block of `text` that has commands."""
    lines = text.split("\n")
    heading, seen = "", 0
    for begin, end, language, first in raw_blocks(lines):
        for line in lines[seen:begin]:
            heading = re.sub(r"^#+ ", "", line) if re.match(r"#+ ", line) else heading
        seen = end
        last = end if first == begin else end - 1
        indent = min((len(line) - len(line.lstrip()) for line in lines[first:last] if line.strip()), default=0)
        commands, shown = parsed(language, [(number + 1, lines[number][indent:]) for number in range(first, last)])
        if commands:
            yield Block(begin + 1, heading, commands, shown, paragraph_before(lines, begin))


def groups(page, heading):
    """The commands of each block that `page` (a path below the root) has in the section of that heading."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [[command.text for command in block.commands] for block in blocks(text) if block.heading == heading]
    if not found:
        raise AssertionError(f"{page} has no commands below {heading!r}")
    return found


def commands(page, heading, prefix=""):
    """All of them in one list, or those that begin with `prefix`."""
    return [command for group in groups(page, heading) for command in group if command.startswith(prefix)]
