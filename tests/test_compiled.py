"""Every module meant to be compiled exists and, in the compiled run, is; the finder brings the source back."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bolide import _impl
from bolide.broker.send.plain_sends import kernel_type as send_kernel
from bolide.layout.native_columns import KERNEL
from bolide.store.reading.read_runs import kernel_type as read_kernel

BACKEND = Path(__file__).parent.parent / "build_backend"


def compiled_list(name: str = "COMPILED") -> dict[str, str]:
    """A table in build_backend/compiled.py, read without importing it."""
    for node in ast.parse((BACKEND / "compiled.py").read_text()).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            assert node.value is not None
            table: dict[str, str] = ast.literal_eval(node.value)
            return table
    raise AssertionError(f"build_backend/compiled.py holds {name}")


def in_a_new_process(program: str, choice: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the interpreter and path of this one, under another BOLIDE_IMPL."""
    environment = {**os.environ, "BOLIDE_IMPL": choice}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_the_list_is_sorted_and_gives_reasons() -> None:
    table = compiled_list()
    assert list(table) == sorted(table)
    assert all(reason.strip() for reason in table.values())


@pytest.mark.parametrize("name", compiled_list())
def test_a_module_meant_to_be_compiled_is(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__file__ is not None
    if os.environ.get("BOLIDE_IMPL") == "compiled":
        assert not module.__file__.endswith(".py"), f"{name} runs interpreted"
        assert name in _impl.compiled_modules()


def test_only_listed_modules_are_compiled() -> None:
    assert set(_impl.extensions()) <= {*compiled_list(), *compiled_list("NATIVE")}


def waits(statement: ast.stmt) -> bool:
    """Whether the function of a statement can be suspended within it."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    suspends = ast.Await | ast.Yield | ast.YieldFrom | ast.AsyncFor | ast.AsyncWith
    return any(isinstance(node, suspends) for node in ast.walk(statement))


def waits_in_handlers(text: str) -> list[int]:
    """The lines of statements in `except` and `finally` that wait."""
    return [
        statement.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Try)
        for body in [*(handler.body for handler in node.handlers), node.finalbody]
        for statement in body
        if waits(statement)
    ]


@pytest.mark.parametrize("name", compiled_list())
def test_compiled_modules_do_not_wait_while_they_handle_an_exception(name: str) -> None:
    """mypyc does not restore the caller's exception while a coroutine waits in a handler. The handled exception becomes
    current in other tasks, and may stay alive indefinitely, with its frames and all that they refer to."""
    source = BACKEND.parent / "src" / Path(*name.split(".")).with_suffix(".py")
    assert waits_in_handlers(source.read_text(encoding="utf-8")) == []


def test_waiting_in_a_handler_is_found() -> None:
    text = "async def f():\n try:\n  await g()\n except E:\n  await h()\n finally:\n  x = [await i()]\n"
    assert waits_in_handlers(text) == [5, 7]


def reads_after_none(text: str) -> list[int]:
    """The lines that read an attribute to which their function assigned None before, without a return between them."""
    lines = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        uses = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
        bodies = [getattr(node, "body", None) for node in ast.walk(function)]
        for block in [body for body in bodies if isinstance(body, list)]:
            if any(isinstance(statement, ast.Return) for statement in block):
                continue
            for statement in block:
                if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)):
                    continue
                for target in statement.targets:
                    name, end = ast.unparse(target), statement.end_lineno or statement.lineno
                    later = [node for node in uses if ast.unparse(node) == name and node.lineno > end]
                    first = min(later, key=lambda node: (node.lineno, node.col_offset), default=None)
                    if statement.value.value is None and first is not None and isinstance(first.ctx, ast.Load):
                        lines.append(first.lineno)
    return lines


@pytest.mark.parametrize("name", compiled_list())
def test_compiled_modules_do_not_read_an_attribute_after_they_assigned_none(name: str) -> None:
    """mypyc assumes that the attribute is still None. If a call between them has set it, the read raises TypeError."""
    source = BACKEND.parent / "src" / Path(*name.split(".")).with_suffix(".py")
    assert reads_after_none(source.read_text(encoding="utf-8")) == []


def test_reading_after_none_is_found() -> None:
    text = "def f(self):\n self.a = None\n g()\n if self.a is None:\n  self.b = None\n  return\n h(self.b)\n"
    assert reads_after_none(text) == [4]


@pytest.mark.parametrize("name", compiled_list("NATIVE"))
def test_kernels_exist_only_in_compiled_builds(name: str) -> None:
    if os.environ.get("BOLIDE_IMPL") == "compiled":
        module = importlib.import_module(name)
        assert module.__file__ is not None and not module.__file__.endswith(".py")
        assert "native kernels for sends and pulls" in _impl.describe()
    if os.environ.get("BOLIDE_IMPL") == "python":
        assert send_kernel() is None and read_kernel() is None and KERNEL is None and "kernel" not in _impl.describe()


def test_python_brings_the_source_back() -> None:
    name = next(iter(compiled_list()))
    program = f"import importlib; from bolide import _impl; m = importlib.import_module({name!r}); print(m.__file__)"
    done = in_a_new_process(program + "; print(_impl.compiled_modules())", "python")
    file, modules = done.stdout.split("\n")[:2]
    assert file.endswith(".py"), done.stderr
    assert modules == "[]"


def test_compiled_fails_loudly_without_extensions() -> None:
    done = in_a_new_process("import bolide; print('imported')", "compiled")
    if _impl.extensions():
        assert done.stdout == "imported\n", done.stderr
    else:
        assert "BOLIDE_IMPL=compiled, but the install in" in done.stderr


def test_an_unknown_choice_names_the_known_ones() -> None:
    done = in_a_new_process("import bolide", "fast")
    assert "BOLIDE_IMPL is 'fast'; set it to one of auto, compiled, python or leave it out" in done.stderr
