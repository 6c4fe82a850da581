"""promtool's evaluation of the alert rules of deploy/prometheus on series."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

RULES: Final = Path(__file__).parent.parent / "deploy" / "prometheus" / "alerts.yml"


def judged(promtool: str, folder: Path, tests: list[dict[str, Any]]) -> str:
    """Evaluate the rules once a minute on the series of tests. Return what promtool prints, or "" if all tests pass."""
    file = folder / "rules_test.yml"
    whole = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(json.dumps(whole), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr
