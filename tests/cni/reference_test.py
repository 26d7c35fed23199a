"""Goal: docs/cni-reference.md agrees with the code."""
import subprocess
import unittest
from pathlib import Path

from plugin import PLUGIN, main

PAGE = Path(__file__).parents[2] / "docs/cni-reference.md"


class Reference(unittest.TestCase):
    def test_page_is_what_the_plugin_prints(self):
        printed = subprocess.run([PLUGIN, "docs"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(PAGE.read_text(encoding="utf-8"), printed, "run fairlead-cni docs again")


if __name__ == "__main__":
    main()
