"""Finds the tests in pytest files by reading, never by running them."""

import ast
from collections.abc import Iterator

from sandbox.judging.asserts import BadTest, parsed

_SHARED = {
    "mock", "monkeypatch", "tmp_path", "tmpdir", "tempfile", "subprocess", "shutil", "stdin",
    "caplog", "capfd", "patch", "MagicMock", "getsource",
}  # fmt: skip
"""Names that tell that tests and program share a process or files, which here they do not."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_names(source: str, file: str) -> list[str]:
    """`test_x` and `TestX::test_y` in the order of the file; BadTest if it is no Python."""
    names: list[str] = []
    for node in parsed(source, file).body:
        if isinstance(node, ast.ClassDef):
            names += [f"{node.name}::{name}" for name in _methods(node)]
        elif isinstance(node, _FUNCTIONS) and _is_test(node.name):
            names.append(node.name)
    if not names:
        raise BadTest(f"{file} holds no test")
    return list(dict.fromkeys(names))  # Of two definitions Python keeps the second.


def _is_test(name: str) -> bool:
    return name.startswith("test")


def _methods(node: ast.ClassDef) -> Iterator[str]:
    bases = " ".join(ast.unparse(base) for base in node.bases)
    if node.name.startswith("Test") or "TestCase" in bases:
        for member in node.body:
            if isinstance(member, _FUNCTIONS) and _is_test(member.name):
                yield member.name


def needs_one_process(source: str, file: str) -> str | None:
    """What in the tests cannot work with the program in another box, if anything does."""
    for node in ast.walk(parsed(source, file)):
        for name in _named(node):
            if name in _SHARED:
                return name
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "random.seed"):
            return f"{ast.unparse(node.func)}()"
    return None


def _named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Import | ast.ImportFrom):
        module = getattr(node, "module", None) or ""
        names = [module, *(alias.name for alias in node.names)]
        return [part for name in names for part in name.split(".")]
    return []
