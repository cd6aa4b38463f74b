"""Methods whose body is one call with the same arguments: ``python tools/forwarders.py``, a part of ``make check``.

Such a method hides where the work is done, and a reader follows it for nothing: let the caller hold what it forwards
to. One without arguments that gives its call another name says something, as ``ask_to_stop`` does for
``self._stopping.set()``; special methods are the language's.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeGuard

SOURCE: Final = Path(__file__).parents[1] / "src" / "holdfast"
Method = ast.FunctionDef | ast.AsyncFunctionDef
KEPT: Final = {
    "Holdfast": {"open", "close", "opened_on", "close_sync"},  # users hold an app, and nothing behind it
    "Engine": {"open", "read_queues", "read_workers", "read_cron"},  # doors hold it, and no store
    "PostgresStore": {"open", "claim", "claim_ids"},  # the port asks for them
    "Rumours": {"open", "close"},  # so does this one
}


def main() -> int:
    found = list(forwarders())
    kept = {(owner, name) for owner, names in KEPT.items() for name in names}
    lines = [f"{place}: {owner}.{name} only forwards" for place, owner, name in found if (owner, name) not in kept]
    gone = kept - {(owner, name) for _, owner, name in found}
    lines += [f"{Path(__file__).name}: {owner}.{name} does not forward: remove it from KEPT" for owner, name in gone]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


def forwarders() -> Iterator[tuple[str, str, str]]:
    """Where it stands, its class and its name."""
    for path in sorted(SOURCE.rglob("*.py")):
        for owner, method in methods(ast.parse(path.read_text(encoding="utf-8"))):
            if is_forwarder(method):
                yield f"{path.relative_to(SOURCE.parents[1])}:{method.lineno}", owner, method.name


def methods(tree: ast.Module) -> Iterator[tuple[str, Method]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, Method) and not child.decorator_list and not child.name.startswith("__"):
                    yield node.name, child


def is_forwarder(method: Method) -> bool:
    body = [one for one in method.body if not _is_text(one)]
    call = _call(body[0]) if len(body) == 1 else None
    if call is None or not _is_of_self(call.func):
        return False
    given = method.args
    positional = [one.arg for one in (*given.posonlyargs, *given.args)][1:]
    keywords = [one.arg for one in given.kwonlyargs]
    if not positional and not keywords and call.func.attr != method.name:
        return False
    passed = [_name(one) for one in call.args]
    named = {one.arg: _name(one.value) for one in call.keywords}
    return [*passed, *sorted(str(value) for value in named.values())] == [*positional, *sorted(keywords)] and all(
        name == value for name, value in named.items()
    )


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _call(statement: ast.stmt) -> ast.Call | None:
    value = statement.value if isinstance(statement, ast.Return | ast.Expr) else None
    if isinstance(value, ast.Await):
        value = value.value
    return value if isinstance(value, ast.Call) else None


def _is_of_self(function: ast.expr) -> TypeGuard[ast.Attribute]:
    """``self.something.method``."""
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Attribute)
        and isinstance(function.value.value, ast.Name)
        and function.value.value.id == "self"
    )


def _name(value: ast.expr) -> str | None:
    return value.id if isinstance(value, ast.Name) else None


if __name__ == "__main__":
    sys.exit(main())
