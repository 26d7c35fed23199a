#!/usr/bin/env python3
"""Checks the habits of this tree that no compiler checks: tests/tidy/tidy.py [folder]"""
import sys
from pathlib import Path

import arrows
import assertions
import claims
import classes
import commands
import documents
import language
import raisers
import source_tree
import style

CHECKS = [
    arrows.check_arrows, arrows.check_layers, arrows.check_rooms, arrows.check_homes, arrows.check_pure_layers,
    style.check_file_size, style.check_function_size, style.check_markers, style.check_banned, style.check_headers,
    style.check_text, style.check_dead_files, style.check_links, assertions.check_assertions,
    classes.check_classes, language.check_phrases, language.check_headings,
    raisers.check_reasons, raisers.check_delete_reasons, raisers.check_counters, raisers.check_metrics,
    raisers.check_facts,
    documents.check_anchors, documents.check_coverage, documents.check_names, documents.check_options,
    commands.check_commands, claims.check_claims,
]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    tree = source_tree.load(str(root))
    if not any(path.startswith("proxy/") for path in tree):
        print(f"no sources in {root}")
        return 2
    count = 0
    for check in CHECKS:
        for path, line, message in check(tree):
            print(f"{path}:{line}: {message}  [{check.__name__.removeprefix('check_')}]")
            count += 1
    print(f"{len(tree)} files, {count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
