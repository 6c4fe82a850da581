"""The modules that Spark imports at every look-up of a format, in a Python that lacks something."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.versions
PROGRAM = """
import sys
from importlib.abc import MetaPathFinder
missing, module = sys.argv[1:]
class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == missing or name.startswith(missing + "."):
            raise {error}
sys.meta_path.insert(0, Absent())
source = __import__(module).DefaultSource
print(source.name())
try:
    source({{}}).schema()
except Exception as error:
    print(f"{{type(error).__name__}}: {{error}}")
for use in (source({{}}).reader, source({{}}).streamReader):
    try:
        use(None)
    except Exception as error:
        print(type(error).__name__)
for use in (source({{}}).writer, source({{}}).streamWriter):
    try:
        use(None, False)
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
@pytest.mark.parametrize("name", ["rocketmq", "rocketmq-store"])
def test_a_missing_requirement_is_named_when_the_source_is_used(name: str, missing: str) -> None:
    module = f"pyspark_{name.replace('-', '_')}"
    told = run(module, missing, f"ImportError(f'No module named {missing}')")
    sentence = f'SparkMissing: format("{name}") cannot run in this Python: No module named {missing}; '
    assert told == [name, sentence + 'pip install "bolide[spark]" installs what it needs', *["SparkMissing"] * 4]


def test_a_requirement_that_fails_in_its_own_way_is_no_different() -> None:
    # Not with numpy, which PySpark 4.0 and 4.1 import for themselves.
    told = run("pyspark_rocketmq", "msgspec", "ValueError('msgspec._core size changed')")
    assert "msgspec._core size changed" in told[1] and told[1].startswith("SparkMissing: ")


def run(module: str, missing: str, error: str) -> list[str]:
    """The lines that the program prints."""
    command = [sys.executable, "-c", PROGRAM.format(error=error), missing, module]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
