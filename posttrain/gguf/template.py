"""A chat template that marks what the assistant says, made of one of ChatML that does not.

Always holds: both render the same text, tried on conversations of every form; a template that is
not ChatML in disguise is refused.
"""

import json
from collections.abc import Mapping, Sequence

from jinja2.exceptions import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

_LEAD = "<|im_start|>system\n"
_END = "<|im_end|>\n"
_MARKED = """\
{%- if messages and messages[0].role != "system" and DEFAULT is not none %}
    {{- "<|im_start|>system\\n" + DEFAULT + "<|im_end|>\\n" }}
{%- endif %}
{%- for message in messages %}
    {{- "<|im_start|>" + message.role + "\\n" }}
    {%- if message.role == "assistant" %}
        {%- generation %}{{- message.content + "<|im_end|>" }}{%- endgeneration %}
    {%- else %}
        {{- message.content + "<|im_end|>" }}
    {%- endif %}
    {{- "\\n" }}
{%- endfor %}
{{- "<|im_start|>assistant\\n" if add_generation_prompt }}"""

Messages = Sequence[Mapping[str, str]]


def _said(*roles: str) -> Messages:
    texts = ("Is {{ it }} 4 < 5?\n", " yes ", "é\n\n")
    return [
        {"role": role, "content": texts[index % len(texts)]} for index, role in enumerate(roles)
    ]


PROBES: Sequence[Messages] = (
    _said("user"), _said("system", "user"), _said("user", "assistant"),
    _said("system", "user", "assistant"), _said("user", "assistant", "user", "assistant", "user"),
)  # fmt: skip


def marked(template: str) -> str:
    """`template` with generation markers; ValueError if what it renders is not known."""
    lead, _, _ = _rendered(template, PROBES[0], True).partition("<|im_start|>user\n")
    known = lead.startswith(_LEAD) and lead.endswith(_END)
    default = json.dumps(lead.removeprefix(_LEAD).removesuffix(_END)) if known else "none"
    found = _MARKED.replace("DEFAULT", default)
    for messages in PROBES:
        for opened in (False, True):
            if _rendered(template, messages, opened) != _rendered(found, messages, opened):
                raise ValueError(
                    "its chat template is not ChatML, and nothing in it marks what the assistant "
                    "says; convert it elsewhere, and put {% generation %} into its template"
                )
    return found


def _rendered(template: str, messages: Messages, opened: bool) -> str:
    try:
        [text], _ = render_jinja_template(
            [list(messages)], chat_template=template, add_generation_prompt=opened,
            bos_token="<|im_start|>", eos_token="<|im_end|>",
        )  # fmt: skip
    except TemplateError as fault:
        raise ValueError(f"its chat template fails: {fault}") from None
    return str(text)
