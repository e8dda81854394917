"""Special tokens: begin of text, ends and markers are what they are called, and once."""

from posttrain.release.check import Check, Skips, Warns, expect, short
from posttrain.release.probe import Probe, Prompt, assistant, reply, user

_BEGINS = ("<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>")
_FORCE = 100.0
"""A bias under which a token is always taken."""


def _begin(probe: Probe) -> int:
    """The id that begins a text; Skips if the format has none."""
    first = probe.opened.pieces[0].strip()
    if first not in _BEGINS:
        raise Skips(f"a rendered prompt begins with {short(first)}, no begin of text")
    return probe.opened.ids[0]


def chat_begin(probe: Probe) -> str:
    """A rendered conversation begins with begin of text, and has it once."""
    begin = _begin(probe)
    count = probe.opened.ids.count(begin)
    expect(count == 1, f"begin of text ({begin}) is {count} times in a rendered prompt")
    return f"once, {begin}"


def raw_begin(probe: Probe) -> str:
    """A plain text is given begin of text at most once."""
    count = probe.tokens("Hello", special=True).ids.count(_begin(probe))
    expect(count <= 1, f"begin of text is {count} times before a plain text")
    return f"{count} times"


def rendered_begin(probe: Probe) -> str:
    """A prompt that was rendered by hand is not given a second begin of text."""
    begin = _begin(probe)
    text = probe.text(probe.opened.ids)
    if not text.startswith(_BEGINS):
        raise Skips("the text of a rendered prompt does not tell its begin of text")
    count = probe.tokens(text, special=True).ids.count(begin)
    expect(count == 1, f"a rendered prompt sent to /completions has begin of text {count} times")
    return "once"


def same_ids(probe: Probe) -> str:
    """What is generated from is what /tokenize tells."""
    answer = probe.raw([user("Hello")], max_tokens=1, return_token_ids=True)
    found = reply(answer)
    told = probe.opened.ids
    used = answer.body.get("prompt_token_ids")
    if used is not None:
        same = used == told
        expect(same, f"generated from {short(used)}, /tokenize tells {short(told)}")
    count = found.usage.get("prompt_tokens")
    expect(count == len(told), f"generated from {count} tokens, /tokenize tells {len(told)}")
    return f"{len(told)} tokens"


def _prefix(whole: Prompt, of: Prompt) -> bool:
    return whole.ids[: len(of.ids)] == of.ids


def turn_opened(probe: Probe) -> str:
    """The turn that is opened for a response begins as one of the history does."""
    expect(len(probe.opened.ids) < len(probe.closed.ids), "an answered prompt is no longer")
    bare = probe.tokenized([user("Hello")], add_generation_prompt=False)
    expect(bare.ids != probe.opened.ids, "the prompt opens no turn of the assistant")
    same = _prefix(probe.closed, probe.opened)
    expect(same, "the assistant's turn is opened otherwise than its turns are rendered")
    return f"{len(probe.opened.ids) - len(bare.ids)} tokens open it"


def single_ids(probe: Probe) -> str:
    """Each marker is one token."""
    for name, index in probe.markers.items():
        ids = probe.tokens(name).ids
        expect(len(ids) == 1, f"{name} is {len(ids)} tokens")
        expect(index in (-1, ids[0]), f"{name} is {ids[0]}, in a rendered prompt {index}")
    return f"{len(probe.markers)} markers"


def identities(probe: Probe) -> str:
    """Each marker's id is no other's, and reads as the marker."""
    ids = {name: probe.tokens(name).ids[0] for name in probe.markers}
    expect(len(set(ids.values())) == len(ids), f"markers share ids: {short(ids)}")
    for name, index in ids.items():
        text = probe.text([index])
        expect(text == name, f"id {index} of {name} reads {text!r}")
    return f"{len(ids)} markers"


def ended(probe: Probe) -> str:
    """A turn's end marker ends the generation, and is not part of what is read."""
    found = probe.chat([user("Hello")], logit_bias={str(probe.end_id): _FORCE}, max_tokens=8)
    count = found.usage.get("completion_tokens")
    expect(found.finish == "stop", f"{count} tokens after the end marker, it goes on")
    expect(count == 1, f"the end marker was forced, yet {count} tokens came")
    expect(found.content == "", f"an ended response reads {short(found.content)}")
    return f"{probe.end_id} ends it"


def not_appended(probe: Probe) -> str:
    """No end is put behind the prompt."""
    expect(probe.opened.ids[-1] != probe.end_id, "the prompt ends with the end marker")
    for special in (False, True):
        ids = probe.tokens("Hello", special=special).ids
        expect(ids[-1] != probe.end_id, "a plain text is given an end marker")
        expect(probe.text(ids[-1:]).strip() not in ("</s>", "<|endoftext|>"), "or end of text")
    return "none"


def rendered_stop(probe: Probe) -> str:
    """A rendered prompt sent without the chat API ends at the end marker too."""
    answer = probe.completion(
        probe.opened.ids, logit_bias={str(probe.end_id): _FORCE}, max_tokens=8
    )
    if answer.status == 404:
        raise Skips("there is no /completions")
    expect(answer.status == 200, f"/completions of ids: {answer.told}")
    count = answer.body["usage"]["completion_tokens"]
    finish = answer.body["choices"][0]["finish_reason"]
    expect((finish, count) == ("stop", 1), f"{count} tokens, finish_reason {finish!r}")
    return "ends"


def history_closed(probe: Probe) -> str:
    """An answer of the history is closed with the end marker before the user speaks again."""
    asked = probe.tokenized([user("Hello"), assistant("Good"), user("More")])
    closed = probe.closed.ids
    expect(asked.ids[: len(closed)] == closed, "an answer is not closed before the next question")
    return f"by {probe.end_id}"


def end_known(probe: Probe) -> str:
    """The end marker is a control token, not text."""
    text = probe.text([probe.end_id])
    ids = probe.tokens(f"a{text}b").ids
    expect(probe.end_id in ids, f"{text!r} within text is no longer the end marker")
    if text.isalnum():
        raise Warns(f"a turn ends with {text!r}, which any text may have")
    return text


CHECKS = (
    Check("one-begin-in-chat", "special_tokens", chat_begin),
    Check("one-begin-in-raw-text", "special_tokens", raw_begin),
    Check("one-begin-in-rendered-text", "special_tokens", rendered_begin),
    Check("generation-ids-are-tokenize-ids", "special_tokens", same_ids),
    Check("turn-opened-as-rendered", "special_tokens", turn_opened),
    Check("markers-are-single-ids", "special_tokens", single_ids),
    Check("markers-keep-their-identity", "special_tokens", identities),
    Check("end-marker-ends", "special_tokens", ended),
    Check("end-not-appended", "special_tokens", not_appended),
    Check("rendered-prompt-stops", "special_tokens", rendered_stop),
    Check("history-is-closed", "special_tokens", history_closed),
    Check("end-marker-is-control", "special_tokens", end_known),
)
