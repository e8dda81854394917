"""Several turns: what was said stays said, by whoever said it."""

from posttrain.release.check import Check, expect, short
from posttrain.release.probe import Probe, assistant, user
from posttrain.release.tools import BOTH, round_trip

_TALK = [
    {"role": "system", "content": "You are called Wren."},
    user("My dog is called Quartz."), assistant("What a name for a dog!"),
    user("He is 4827 days old."), assistant("That is a good age."),
    user("What is my dog called?"),
]  # fmt: skip


def order(probe: Probe) -> str:
    """Each turn is shown to the model, once, and in its order."""
    text = probe.text(probe.tokenized(_TALK).ids)
    said = [message["content"] for message in _TALK]
    for each in said:
        count = text.count(each)
        expect(count == 1, f"{each!r} is {count} times in the prompt")
    places = [text.index(each) for each in said]
    expect(places == sorted(places), "the turns are in another order")
    return f"{len(said)} turns"


def roles(probe: Probe) -> str:
    """What the user says is not what the assistant says: the roles make the prompt."""
    one = probe.tokenized([user("A"), assistant("B"), user("C")]).ids
    other = probe.tokenized([user("A"), user("B"), user("C")])
    expect(one != other.ids, "a turn of the assistant is rendered as one of the user")
    return "rendered by role"


def grows(probe: Probe) -> str:
    """A conversation that goes on begins as it was: the cache of its prompt holds."""
    shorter = probe.tokenized(_TALK[:4], add_generation_prompt=False).ids
    longer = probe.tokenized(_TALK).ids
    expect(longer[: len(shorter)] == shorter, "earlier turns are rendered anew when more follow")
    return f"{len(shorter)} of {len(longer)} tokens"


def many(probe: Probe) -> str:
    """A conversation of twenty turns is answered."""
    talk = [turn for _ in range(10) for turn in (user("Again?"), assistant("Again."))]
    answer = probe.raw([*talk, user("Again?")], max_tokens=8)
    expect(answer.status == 200, f"20 turns: {answer.told}")
    return "answered"


def tool_in_between(probe: Probe) -> str:
    """A conversation goes on after a tool's output was answered."""
    talk = [*round_trip(), assistant("Hail, 7 degrees."), user("Thanks. And who are you?")]
    answer = probe.raw(talk, tools=BOTH, max_tokens=8)
    expect(answer.status == 200, f"after a tool's output: {answer.told}")
    text = probe.text(probe.tokenized(talk, tools=BOTH).ids)
    expect('"hail"' in text and "Thanks." in text, "the tool's output is no longer in the prompt")
    return "answered"


def recall(probe: Probe) -> str:
    """What was told turns ago is known."""
    found = probe.chat(_TALK)
    expect("quartz" in found.content.lower(), f"the dog's name is Quartz: {short(found.content)}")
    return "Quartz"


def identity(probe: Probe) -> str:
    """Who the system message says it is, it is."""
    found = probe.chat([_TALK[0], user("What are you called?")])
    expect("wren" in found.content.lower(), f"it is called Wren: {short(found.content)}")
    return "Wren"


CHECKS = (
    Check("turns-in-order", "multi_turn", order),
    Check("turns-by-role", "multi_turn", roles),
    Check("turns-stay-as-rendered", "multi_turn", grows),
    Check("many-turns", "multi_turn", many),
    Check("tool-in-between", "multi_turn", tool_in_between),
    Check("recall", "multi_turn", recall, "model"),
    Check("role-kept", "multi_turn", identity, "model"),
)
