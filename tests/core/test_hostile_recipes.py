"""However a recipe is mangled, it is read or refused: one placed, readable line per fault."""

import copy
import io
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.store import Store
from tests.core.runs import SMALL, write

RECIPES = {path.name: path.read_text() for path in sorted(Path("recipes").glob("*.yaml"))}

LINE = re.compile(r"(?:[^:\n]*\.yaml(?::\d+)?|--set [^\n]*?): \S[^\n]{0,400}")
NOISE = re.compile(
    r"input_value|input_type|pydantic|https?://errors|validation error|ruamel|function-"
    r"|<class|<unicode| at 0x"
)

VALUES: list[Any] = [
    None, True, -1, 0, 2**31, 10**400, 1e308, float("inf"), float("nan"), "", "x", "é", "\u2028",
    "a/b", "../x", "a.b", "5%", "10 points", "inf", "x\ny", "x" * 5000, "base", "corpus.holdout",
    [], {}, ["x"], [[[[]]]], {"": ""}, {"x": {"y": {}}}, {"kind": "sft"}, {"equivalence": False},
]  # fmt: skip
KEYS = ["x", "é", "", "a.b", "kind", "from", "extends", "A" * 300, "to", "<<", "1", "null"]
SIGNS = [
    "\t", "  ", "\n", ": ", "- ", "{", "}", "[", "]", "&a ", "*a", "!!python/object:os.system ",
    "!!int ", "!x ", "!!set ", "!!timestamp ", "<<: *a", "? ", "? [a]: b", "|", ">", '"', "'", "#",
    "%", "@", "`", "\x00", "\x7f", "\ufeff", "\u2028", "\x85", "🎉", "---\n", "%YAML 1.1\n", ".nan",
    "1e400", "2001-13-45", "0o7", '"\\ud83d"', '"\\0"',
]  # fmt: skip


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    keyed = dict(enumerate(value)) if isinstance(value, list) else value
    for key, inner in keyed.items() if isinstance(keyed, dict) else ():
        yield from paths(inner, (*at, key))


def mangled_text(chance: random.Random, text: str) -> str:
    at, line = chance.randrange(len(text)), chance.choice(text.splitlines(keepends=True))
    return chance.choice(
        [
            text[:at] + chance.choice(SIGNS) + text[at + chance.randrange(4) :],
            text[:at] + text[at + chance.randrange(1, 10) :],
            text[:at],
            text.replace(line, "", 1),
            text.replace(line, line + line, 1),
            text.replace(line, " " * chance.randrange(4) + line, 1),
            text.replace(line, line.replace(":", ": " + chance.choice(SIGNS), 1), 1),
        ]
    )


def mangled_values(chance: random.Random, text: str) -> str:
    tree = YAML(typ="safe").load(text)
    for _ in range(chance.choice([1, 1, 2])):
        at = chance.choice(list(paths(tree)))
        node = tree
        for key in at[:-1]:
            node = node[key]
        changed = chance.randrange(4)
        if changed == 0:
            del node[at[-1]]
        elif changed == 1 and isinstance(node, dict):
            node[chance.choice(KEYS)] = node.pop(at[-1])
        elif changed == 2:
            node[at[-1]] = [node[at[-1]]] if chance.random() < 0.5 else {"x": node[at[-1]]}
        else:
            node[at[-1]] = copy.deepcopy(chance.choice(VALUES))
    written = io.StringIO()
    YAML(typ="safe").dump(tree, written)
    return written.getvalue()


def mangled_set(chance: random.Random, text: str) -> str:
    at = [str(key) for key in chance.choice(list(paths(YAML(typ="safe").load(text))))]
    if chance.random() < 0.4:
        at[chance.randrange(len(at))] = chance.choice([*KEYS, "\n", " "])
    value = chance.choice([str(chance.choice(VALUES)), chance.choice(SIGNS)])
    return ".".join(at) + chance.choice(["=", "=", "= ", "==", "", ":"]) + value


def faults(path: Path, changes: list[str], store: Store) -> list[str]:
    """The lines with which the recipe is refused; none if it is read."""
    try:
        resolve(load(path, changes), store)
    except ValueError as fault:
        return str(fault).splitlines() or [""]
    return []


@pytest.mark.parametrize("seed", range(4))
def test_a_mangled_recipe_is_read_or_refused_in_placed_lines(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = Store(tmp_path / "store")
    for name, text in RECIPES.items():
        write(tmp_path, text, name)
    refused = 0
    for _ in range(80):
        text, changes = chance.choice(list(RECIPES.values())), []
        mangle = chance.choice([mangled_text, mangled_values, mangled_set])
        if mangle is mangled_set:
            changes = [mangled_set(chance, text)]
        else:
            text = mangle(chance, text)
        (tmp_path / "r.yaml").write_text(text, encoding="utf-8", newline="")
        lines = faults(tmp_path / "r.yaml", changes, store)
        refused += bool(lines)
        for line in lines:
            assert LINE.fullmatch(line), (line, changes)
            assert not NOISE.search(line), (line, changes)
    assert refused > 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.yaml:1: a recipe is a map of keys"),
        ("- a\n", "r.yaml:1: a recipe is a map of keys"),
        ("a: 1\n---\nb: 2\n", "r.yaml:2: a second document begins"),
        ("a: &x [*x]\n", r"r.yaml:1: alias \*x has no anchor before it"),
        ("a: " + "[" * 60 + "]" * 60, "r.yaml:1: nested more than 40 deep"),
        ("a: !!python/object:os.system x\n", "r.yaml:1: tag .* has no meaning here"),
        ("a: {x: 1}\nb:\n  <<: {y: 1}\n", "r.yaml:3: merge keys are not supported"),
        ("a: 1\nb: 2\na: 3\n", "r.yaml:3: duplicate key 'a'; it stands at .*r.yaml:1 already"),
        ('a: "\\ud83d"\n', "r.yaml:1: text holds a character that cannot be printed"),
        ("a: 1\nb: \x00\n", "r.yaml:2: holds a character that YAML forbids"),
    ],
)
def test_yaml_beyond_plain_values_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(write(tmp_path, text))


def test_aliases_stand_for_their_values_and_cannot_explode(tmp_path: Path) -> None:
    shared = SMALL.replace("documents: 64", "documents: &size 64").replace(
        "rows: 32", "rows: *size"
    )
    assert load(write(tmp_path, shared)).stages["dialogues"].config.model_extra == {"rows": 64}
    bomb = "a0: &a0 [1, 1]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
    )
    with pytest.raises(ValueError, match="a recipe has 20000 values at most"):
        load(write(tmp_path, bomb))


@pytest.mark.parametrize("wide", ["inf", "'-inf'", "nan", "1e999", "99999999999999999999"])
def test_a_number_that_no_key_can_hold_is_refused(tmp_path: Path, wide: str) -> None:
    trained = "kind: sft, from: a, data: dialogues, steps: 1"
    text = f"{SMALL}  a: {{{trained}, optimizer: {{adamw: {{lr: {wide}}}}}}}\n"
    with pytest.raises(ValueError, match=r"^\S*r.yaml:12: "):
        load(write(tmp_path, text))


def test_what_is_no_text_or_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"recipe: \xff\n")
    with pytest.raises(ValueError, match=r"r.yaml: is not UTF-8 text"):
        load(path)
    path.write_bytes(b"#" * (2 << 20))
    with pytest.raises(ValueError, match=r"r.yaml: is larger than 1 MiB"):
        load(path)
