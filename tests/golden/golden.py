"""Golden files of interfaces: text that changes only on purpose. FAIRLEAD_UPDATE_GOLDEN=1 writes them."""
import difflib
import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def check(case, name, actual):
    """Compares with the file, or writes it."""
    path = FOLDER / name
    if os.environ.get("FAIRLEAD_UPDATE_GOLDEN") == "1":
        path.write_text(actual, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if actual != expected:
        difference = "\n".join(difflib.unified_diff(expected.splitlines(), actual.splitlines(), name, "now",
                                                    lineterm="", n=1))
        case.fail(f"{difference}\nFAIRLEAD_UPDATE_GOLDEN=1 accepts the change")
