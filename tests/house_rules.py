"""The house rules as functions over text: each takes a path and its source and says what is wrong, line by line.

`test_house` runs them over the checkout and over a case each that must fire.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import PurePosixPath

Rule = Callable[[PurePosixPath, str], Iterator[str]]

MOST_PARAMETERS = 8
MAY_HAVE_MORE = {
    "src/bolide/admin/topics.py:create_topic": "arguments of the admin client, keyword-only",
    "src/bolide/client/instance/options.py:of": "takes what a client's constructor takes",
    "src/bolide/client/instance/send_frame.py:send_frame": "a field of the header each, once a message sent",
    "src/bolide/spark/dispatch/follow.py:follow_store": "arguments of a job, keyword-only",
    "src/bolide/spark/jobs/files.py:import_files": "arguments of a job, keyword-only",
    "src/bolide/spark/jobs/replay.py:replay": "arguments of a job, keyword-only",
}
"""Functions that may have more parameters, with the reason. Constructors of clients may, too: a user names the few
arguments that matter; and so may commands, whose parameters are the options on the command line."""
PURE_ROOMS = ("broker", "controller", "dispatch", "layout", "namesrv", "remoting", "store")
DOOR_TO_FILES = (
    "src/bolide/store/disk/atomic_write.py",
    "src/bolide/store/disk/boot_id.py",
    "src/bolide/store/disk/cold_reads.py",
    "src/bolide/store/disk/file_maps.py",
    "src/bolide/store/disk/files.py",
    "src/bolide/store/disk/posix_locks.py",
)
OUTSIDE_WORLD = {
    "asyncio",
    "datetime",
    "fcntl",
    "glob",
    "io",
    "mmap",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
PHRASES_QUOTED = {"tests/house_rules.py", "tests/test_house.py"}
REFUSED_NAMES = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
ONE_WORD_ONE_THING = {
    "commitlog": "commit_log",
    "consumequeue": "consume_queue",
    "phy_offset": "physical_offset",
    "phyoffset": "physical_offset",
    "queueid": "queue_id",
    "queueoffset": "queue_offset",
    "sysflag": "sys_flag",
    "tagscode": "tags_code",
}


@lru_cache(maxsize=1)
def tree(text: str) -> ast.Module:
    """The parsed source; all rules look at one file before the next."""
    return ast.parse(text)


@lru_cache(maxsize=1)
def nodes(text: str) -> tuple[ast.AST, ...]:
    """All nodes of the parsed source."""
    return tuple(ast.walk(tree(text)))


def room_of(path: PurePosixPath) -> str | None:
    """The room a source file belongs to, or None outside ``src/bolide``."""
    return path.parts[2] if path.parts[:2] == ("src", "bolide") and len(path.parts) > 3 else None


def file_names(path: PurePosixPath, text: str) -> Iterator[str]:
    """A name says what is inside; these say nothing."""
    for part in path.parts:
        for word in PurePosixPath(part).stem.lower().split("_"):
            if word in REFUSED_NAMES:
                yield f"{path}: a file or folder named {part!r}; name it after the noun it holds"


def few_parameters(path: PurePosixPath, text: str) -> Iterator[str]:
    """A function with many parameters wants a type that carries them; `self` does not count, generated files do not."""
    room = room_of(path)
    if room in (None, "cli") or "enerated by tools/" in text[:1000]:
        return
    for node in nodes(text):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if f"{path}:{node.name}" in MAY_HAVE_MORE or (room == "client" and node.name == "__init__"):
            continue
        names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        names += [arg.arg for arg in (node.args.vararg, node.args.kwarg) if arg is not None]
        count = len([name for name in names if name not in ("self", "cls")])
        if count > MOST_PARAMETERS:
            yield f"{path}:{node.lineno}: {node.name} has {count} parameters, more than {MOST_PARAMETERS}"


_SILENCER = re.compile(r"#\s*(type:\s*ignore|noqa)(\[[^\]]*\]|:\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*)?")


def silencers_give_reasons(path: PurePosixPath, text: str) -> Iterator[str]:
    """Whoever silences a tool names the rule and says why."""
    for number, line in enumerate(text.splitlines(), 1):
        found = list(_SILENCER.finditer(line))
        if not found:
            continue
        if any(not match[2] for match in found):
            yield f"{path}:{number}: silences every rule; name the one it means"
        if len(re.findall(r"[A-Za-z]{2,}", line[found[-1].end() :])) < 2:
            yield f"{path}:{number}: silences a tool without a reason beside it"


def pure_rooms_stay_pure(path: PurePosixPath, text: str) -> Iterator[str]:
    """Time is an argument and files go through `store.disk.files`."""
    if room_of(path) not in PURE_ROOMS or path.as_posix() in DOOR_TO_FILES:
        return
    for node in nodes(text):
        if isinstance(node, ast.Import | ast.ImportFrom):
            of = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for module in of:
                if module.split(".")[0] in OUTSIDE_WORLD:
                    yield f"{path}:{node.lineno}: imports {module}; a pure room gets time and files as arguments"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "print"):
            yield f"{path}:{node.lineno}: calls {node.func.id}(); only store.files opens, only the command line prints"


WORLDLY_ROOMS = ("client", "monitor", "node", "transport")
WORLD = {
    *("clocks", "fcntl", "glob", "http", "mmap", "multiprocessing", "os", "queue", "random", "secrets", "select"),
    *("selectors", "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"),
}
"""Modules through which clocks, chance, threads, sockets and files come in."""
WORLD_CALLS = {
    *("ProcessPoolExecutor", "ThreadPoolExecutor", "add_reader", "add_writer", "connect_read_pipe"),
    *("create_connection", "create_datagram_endpoint", "create_server", "create_subprocess_exec", "sock_connect"),
    *("getaddrinfo", "new_event_loop", "open", "open_connection", "read_bytes", "read_text", "start_server"),
    *("to_thread", "urandom", "write_bytes", "write_text"),
}
BESIDE_THE_WORLD: dict[str, tuple[set[str], str]] = {
    "client/instance/environment_credentials.py": ({"os"}, "reads the environment before there is a client"),
    "client/instance/environment_tls.py": ({"os"}, "reads the environment before there is a client"),
    "client/instance/instance.py": ({"os"}, "notices a fork"),
    "client/instance/loop_thread.py": (
        {"threading", "new_event_loop", "os"},
        "the blocking clients are a thread and a loop, and notice a fork",
    ),
    "client/instance/name_servers.py": (
        {"http", "os", "urllib"},
        "reads the environment before there is a client; asks an address server, in a thread of the world",
    ),
    "client/consuming/stacks.py": ({"threading"}, "reads the names of the threads that run"),
    "client/instance/process_id.py": ({"os"}, "notices a fork"),
    "client/instance/unclosed.py": ({"os"}, "notices a fork"),
    "client/instance/unique_id.py": ({"time"}, "asks the calendar in which month a time of the world is"),
    "client/producing/producer.py": ({"uuid"}, "writes random bits of the world as a UUID"),
    "client/producing/send_context.py": ({"threading"}, "notices calls from another thread"),
    "client/worker.py": ({"os", "signal"}, "is the process around clients"),
    "client/messages/user_code.py": ({"threading"}, "tells the main thread, which gets Ctrl-C, from others"),
    "client/tracing/interceptor.py": ({"clocks"}, "records that a user makes have the time of the machine"),
    "node/loop/clock.py": ({"clocks"}, "reads the machine by a native call, where the world is the machine"),
    "node/process/heap.py": ({"os"}, "reads the environment before there is a node"),
    "node/process/daemon.py": ({"connect_read_pipe", "signal"}, "is the process around a node"),
    "node/logs/log_files.py": (
        {"fcntl", "open", "os"},
        "is the process around a node: what it logs there tells of the world, and takes no part in it",
    ),
    "node/machine/node_world.py": ({"os"}, "is the machine"),
    "node/processes.py": ({"create_subprocess_exec", "signal"}, "starts processes"),
    "node/settings/config.py": ({"open", "os"}, "reads the settings before there is a node"),
    "node/standalone.py": ({"signal", "socket", "time"}, "starts processes and finds ports for them"),
    "transport/blocking.py": ({"getaddrinfo", "socket", "time"}, "serves Spark's workers, which have no loop"),
    "transport/reasons.py": ({"os", "socket"}, "names errors"),
}
"""Files of these rooms that reach past the world, what they may use, and why."""


def world_enters_by_one_door(path: PurePosixPath, text: str, exceptions: bool = True) -> Iterator[str]:
    """Node, client and transport get clocks, chance, threads, sockets and files from their `World`."""
    if room_of(path) not in WORLDLY_ROOMS:
        return
    allowed, _ = BESIDE_THE_WORLD.get(path.as_posix().removeprefix("src/bolide/"), (set(), ""))
    for node in nodes(text):
        found: set[str] = set()
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").removeprefix("bolide.world.").split(".")[0]
            found = WORLD & {module} | WORLD_CALLS & {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found = WORLD & {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Call):
            found = WORLD_CALLS & {_called(node)}
        for name in sorted(found - (allowed if exceptions else set())):
            yield f"{path}:{getattr(node, 'lineno', 0)}: uses {name}; ask the world of the node or client for it"


SEED_ROOMS = ("admin", "broker", "client", "namesrv", "node", "remoting", "store", "transport")
IN_ORDER = {"dict", "enumerate", "extend", "fromkeys", "gather", "iter", "join", "list", "map", "next", "tuple", "zip"}
"""Calls that take what they are given in its order."""


def nothing_in_the_order_of_a_set(path: PurePosixPath, text: str) -> Iterator[str]:
    """A set of texts is walked in an order that PYTHONHASHSEED decides, and no seed of a simulation repeats it."""
    if room_of(path) not in SEED_ROOMS:
        return
    for node in nodes(text):
        walked: list[ast.expr] = []
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            walked = [node.iter]
        elif isinstance(node, ast.Starred):
            walked = [node.value]
        elif isinstance(node, ast.Call) and _called(node) in IN_ORDER:
            walked = node.args
        for expression in walked:
            if _is_set(expression):
                yield f"{path}:{expression.lineno}: walks a set in the order of its hashes; sort it, or use a dict"


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_set(node.left) or _is_set(node.right)
    made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return made or isinstance(node, ast.Set | ast.SetComp)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def no_fixed_sleeps(path: PurePosixPath, text: str) -> Iterator[str]:
    """A test waits for an event or polls a condition with a deadline: a sleep stands inside a loop, or is sleep(0)."""
    if path.parts[0] != "tests" or "from proof.simulation." in text:  # there time is virtual
        return

    def visit(node: ast.AST, polls: bool) -> Iterator[str]:
        if isinstance(node, ast.Call) and _called(node) == "sleep" and not polls:
            zero = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            if not zero:
                yield f"{path}:{node.lineno}: sleeps for a fixed time; wait for an event or poll with a deadline"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, polls or isinstance(node, ast.While))

    yield from visit(tree(text), False)


def no_patching(path: PurePosixPath, text: str) -> Iterator[str]:
    """Patching compiled code changes nothing and says nothing; seams are constructor arguments."""
    if path.parts[0] != "tests":
        return
    ours: set[str] = set()
    for node in nodes(text):
        if isinstance(node, ast.ImportFrom):
            if node.module == "unittest.mock" and any(alias.name == "patch" for alias in node.names):
                yield f"{path}:{node.lineno}: imports patch; pass a double to the constructor"
            if (node.module or "").split(".")[0] == "bolide":
                ours |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            ours |= {"bolide" for alias in node.names if alias.name.split(".")[0] == "bolide"}
    for node in nodes(text):
        if isinstance(node, ast.Attribute) and node.attr == "patch" and getattr(node.value, "id", "") == "mock":
            yield f"{path}:{node.lineno}: uses mock.patch; pass a double to the constructor"
        if isinstance(node, ast.Call) and _called(node) in ("setattr", "patch") and node.args:
            first = node.args[0]
            while isinstance(first, ast.Attribute):
                first = first.value
            text_of = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
            if text_of.startswith("bolide.") or (isinstance(first, ast.Name) and first.id in ours):
                yield f"{path}:{node.lineno}: patches bolide; pass a double to the constructor"


def tests_are_leaves(path: PurePosixPath, text: str) -> Iterator[str]:
    """No module imports a test module, and no module outside tests/ imports tests."""
    outside = path.parts[0] != "tests"
    for node in nodes(text):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(path.parts[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (start, node.module)))
            modules = [module, *(f"{module}.{alias.name}" for alias in node.names if alias.name.startswith("test_"))]
        for module in modules:
            parts = module.split(".")
            if parts[0] != "tests":
                continue
            if outside:
                yield f"{path}:{node.lineno}: imports {module} from outside tests/; move the shared part to proof/kit"
            elif any(part.startswith("test_") for part in parts):
                yield f"{path}:{node.lineno}: imports the test module {module}; move the shared part beside it"


def judges_share_no_code(path: PurePosixPath, text: str) -> Iterator[str]:
    """The reader and the ledger, which judge Bolide, import the standard library and themselves only."""
    own = ".".join(path.parts[:2])
    for node in nodes(text) if own in ("proof.ledger", "proof.reader") else ():
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            modules = [node.module]
        for module in modules:
            if module.split(".")[0] not in sys.stdlib_module_names and ".".join(module.split(".")[:2]) != own:
                yield f"{path}:{node.lineno}: imports {module}; a judge shares no code with what it judges"


def nothing_swallowed(path: PurePosixPath, text: str) -> Iterator[str]:
    """An error nobody sees never happened; catch the one that is meant."""
    for node in nodes(text):
        if isinstance(node, ast.ExceptHandler) and isinstance(node.body[0], ast.Pass | ast.Continue):
            if node.type is None or getattr(node.type, "id", "") in ("Exception", "BaseException"):
                yield f"{path}:{node.lineno}: swallows every error; name the one that is expected"


# Put together, so that the rule does not fire on this file.
_UNFINISHED = re.compile(
    rf"\b({'TO' + 'DO'}|{'FIX' + 'ME'}|raise NotImplementedError|{'for ' + 'now'}|{'place' + 'holder'})\b"
)


def nothing_unfinished(path: PurePosixPath, text: str) -> Iterator[str]:
    """What is not there yet is an issue, not a comment."""
    if path.parts[0] != "src":
        return
    for number, line in enumerate(text.splitlines(), 1):
        if match := _UNFINISHED.search(line):
            yield f"{path}:{number}: says {match[0]!r}; finish it or leave it out"


_MACHINE_PATH = re.compile(r"(?<![\w.])/(" r"work|" r"root)/[\w.]")


def no_machine_paths(path: PurePosixPath, text: str) -> Iterator[str]:
    """A path of the machine it was written on helps nobody else."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _MACHINE_PATH.search(line):
            yield f"{path}:{number}: holds a path of one machine ({match[0]}…)"


def one_word_one_thing(path: PurePosixPath, text: str) -> Iterator[str]:
    """RocketMQ's terms in snake case, each thing under one name."""
    if path.parts[0] != "src":
        return
    for node in nodes(text):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None) or getattr(node, "arg", None)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name
        if isinstance(name, str) and name in ONE_WORD_ONE_THING:
            yield f"{path}:{getattr(node, 'lineno', 0)}: {name!r} is called {ONE_WORD_ONE_THING[name]!r} here"


# Each phrase that plain English has a standard word for, and that word.
REFUSED_PHRASES: tuple[tuple[str, str], ...] = tuple(
    (rf"\b{phrase}", standard)
    for phrase, standard in (
        (r"(?-i:anew)\b", "again"),
        (r"whoever\b", "anyone who, or the noun: the caller, the client"),
        (r"that (?:is|are) (?-i:none)\b", "invalid, missing"),
        (r"(?:what|which|that) (?:is|are) no(?! (?:longer|more|less|such)\b) [a-z]", "is not a, invalid"),
        (r"(?:go|goes|going|gone|went) on with\b", "continues, resumes"),
        (
            r"(?:go|goes|going|gone|went) on(?= (?:from|where|without|after|at|until|as|behind|there)\b|[.,;:)])",
            "continues",
        ),
        (
            r"(?:stand|stands|standing|stood) (?:in|behind|beside|there|here|once|twice)\b",
            "is in, replaces, follows",
        ),
        (r"for ever\b", "forever, indefinitely"),
        (r"lets? be\b", "leaves unchanged, accepts"),
        (r"(?:come|comes|came|coming) again\b", "is redelivered, is repeated"),
        (r"what else there is\b", "the rest"),
        (r"stands? oddly\b", "out of sequence"),
        (r"of ours\b", "Bolide's"),
        (r"in earnest\b", "in production"),
        (
            r"(?:commit|record|message|word|text|head|file|end|offset|place|one|unit|line|name|field)s? behind\b",
            "after",
        ),
        (
            r"(?<!lag\s)(?<!lags\s)(?<!is\s)behind (?:it|them|that|this|its|their|each|every|one|those|all)\b",
            "after it",
        ),
        (r"(?:comes?|goes|lies?|lay|put|puts|writes?|written|read|follows?|kept) behind\b", "after"),
    )
)
_REFUSED = re.compile("|".join(f"({phrase})" for phrase, _ in REFUSED_PHRASES).replace(" ", r"\s+"), re.IGNORECASE)


def _prose(path: PurePosixPath, text: str) -> Iterator[tuple[int, str]]:
    """What a person reads of a file: all of it, or of Python its comments and texts, with the number of the line."""
    if path.suffix != ".py":
        yield 1, text
        return
    first, comment = 0, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            first, comment = first or token.start[0], comment + token.string.lstrip("#:") + "\n"
            continue
        if token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield token.start[0], token.string
        if token.type != tokenize.NL and comment:
            yield first, comment
            first, comment = 0, ""


def plain_english(path: PurePosixPath, text: str) -> Iterator[str]:
    """The standard word, in docstrings, comments, messages, pages and fragments of the changelog."""
    if path.suffix not in (".py", ".md", ".toml", ".html") or path.as_posix() in PHRASES_QUOTED:
        return
    for first, prose in _prose(path, text):
        for match in _REFUSED.finditer(prose):
            standard = REFUSED_PHRASES[match.lastindex - 1][1] if match.lastindex else ""
            line = first + prose.count("\n", 0, match.start())
            yield f"{path}:{line}: says {' '.join(match[0].split())!r}; the standard word: {standard}"


PYTHON_RULES: tuple[Rule, ...] = (
    few_parameters,
    silencers_give_reasons,
    pure_rooms_stay_pure,
    world_enters_by_one_door,
    nothing_in_the_order_of_a_set,
    no_fixed_sleeps,
    no_patching,
    tests_are_leaves,
    judges_share_no_code,
    nothing_swallowed,
    nothing_unfinished,
    one_word_one_thing,
)
ANY_FILE_RULES: tuple[Rule, ...] = (file_names, no_machine_paths, plain_english)
