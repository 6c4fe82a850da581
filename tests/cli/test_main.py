"""What the command line imports before it knows the verb: a daemon started by it must be quick and small."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from bolide.cli.main import load
load()
heavy = [name for name in sys.modules if name.split(".")[0] in ("numpy", "pyarrow", "pandas", "pyspark", "matplotlib")]
heavy += [name for name in ("bolide.client", "bolide.admin", "bolide.node") if name in sys.modules]
print(",".join(sorted(heavy)))
"""


def test_import_of_main_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
