"""Tools declared as TypeScript types, from the JSON schemas of their parameters.

Always holds: the declarations are to the letter those that the Apertus models were trained on,
where they break lines within a type too (facts.md 3.2).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posttrain.data.conversation import function

_BREAK = "\n" + 16 * " "
_LONGEST = 50
"""Characters of a type of which an array is still spelled out."""

_PLAIN = {"number": "number", "integer": "number", "boolean": "boolean"}


def declarations(tools: Sequence[Mapping[str, Any]]) -> str:
    """One after the other, a line break between two; empty for no tools."""
    return "\n".join(_declaration(function(tool)) for tool in tools)


def _declaration(tool: Mapping[str, Any]) -> str:
    schema = tool.get("parameters") or {}
    fields = ",\n".join(_fields(schema))
    signature = f"(_: {{\n{fields}\n}})" if fields else "()"
    return f"// {tool['description']}\ntype {tool['name']} = {signature} => any;"


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    required = schema.get("required") or ()
    for name, spec in (schema.get("properties") or {}).items():
        doc = f"// {spec['description']}\n" if spec.get("description") else ""
        yield f"{doc}{name}{'' if name in required else '?'}: {_type(spec)}{_default(spec)}"


def _default(spec: Mapping[str, Any]) -> str:
    if "default" not in spec:
        return ""
    if spec.get("enum"):
        return f", // default: {spec['default']}"
    if spec.get("oneOf"):
        return f"// default: {spec['default']}"
    return f", // default: {_json(spec['default'])}"


def _type(spec: Any) -> str:
    kind = spec.get("type") if isinstance(spec, Mapping) else None
    if kind == "array":
        return _array(spec.get("items")) + _null(spec)
    if kind and isinstance(kind, list | tuple):
        return " | ".join(map(str, kind))
    if isinstance(spec, Mapping) and spec.get("oneOf"):
        return " | \n".join(_variant(variant) for variant in spec["oneOf"])
    if kind == "string":
        if spec.get("enum"):
            return " | ".join(f'"{value}"' for value in spec["enum"])
        return f"string{_null(spec)}"
    if kind == "object":
        return _object(spec)
    return _PLAIN.get(str(kind), "any")


def _null(spec: Mapping[str, Any]) -> str:
    return " | null" if spec.get("nullable") else ""


def _array(items: Any) -> str:
    if not items:
        return "any[]"
    kind = items.get("type") if isinstance(items, Mapping) else None
    if kind in ("string", *_PLAIN):
        return f"{_PLAIN.get(kind, kind)}[]"
    inner = _type(items)
    return "any[]" if inner == "object | object" or len(inner) > _LONGEST else f"{inner}[]"


def _object(spec: Mapping[str, Any]) -> str:
    required = spec.get("required") or ()
    fields = [
        f"{name}{'' if name in required else '?'}: {_BREAK}{_type(inner)}"
        for name, inner in (spec.get("properties") or {}).items()
    ]
    return f"{{\n{', '.join(fields)}}}" if fields else "object"


def _variant(variant: Mapping[str, Any]) -> str:
    doc = f"// {variant['description']}" if variant.get("description") else ""
    given = f"{20 * ' '}// default: {_json(variant['default'])}" if "default" in variant else ""
    return f"{_type(variant)}{doc}{given}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
