"""What `bolide.spark` offers is there, and costs executors nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import get_origin

import pytest

import bolide.spark


def test_every_name_that_is_offered_is_found() -> None:
    for name in bolide.spark.__all__:
        found = getattr(bolide.spark, name)
        assert found.__module__.startswith("bolide.") or get_origin(found) is Callable  # OnProgress is an alias
    assert not hasattr(bolide.spark, "nothing")


def test_importing_the_package_imports_no_job() -> None:
    code = "import sys, bolide.spark; print([name for name in sys.modules if name.startswith('bolide.spark.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["pyspark_rocketmq", "pyspark_rocketmq_store"])
def test_the_processes_that_plan_a_read_do_not_wait_for_pandas(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'pandas', 'pyarrow.parquet', 'fastavro'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
