"""Kinds of attack of which each seed gets one a family, in turn. So a run of as many seeds as the longest family has all
of them. Of the first family each attack ends in one of the deeds, drawn from the seed."""
import deeds
import framed
from link_group import STATES

LINKS = [f"links/{role}_v{version}/{state}" for role in ("client", "server") for version in (1, 2)
         for state in STATES[version]]
FRAMES = [f"frames/client/{name}" for name in framed.CLIENT] + [f"frames/server/{name}" for name in framed.SERVER]
HANDSHAKES = [f"handshake/{role}_v{version}/{where}" for role in ("client", "server") for version in (1, 2)
              for where in ("mutated", "cut", "other_version")]
FAMILIES = (LINKS, FRAMES, HANDSHAKES)
ALL = [kind for family in FAMILIES for kind in family]
# A family in one role and version.
PARTIES = sorted({"/".join(kind.split("/")[:2]) + "/" for kind in ALL})
DEEDS = [deed.__name__ for deed in deeds.ALL_DEEDS]


def of_seed(seed):
    return [family[seed % len(family)] for family in FAMILIES]
