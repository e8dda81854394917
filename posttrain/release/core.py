"""Core: what every chat endpoint must do."""

import re
from collections import Counter
from itertools import groupby

from posttrain.release.check import Check, Skips, Warns, expect, fail, short
from posttrain.release.probe import TOKENS, Probe, Reply, assistant, leaked, user

_QUESTION = [user("Name three things that float on water.")]
_LONG = [user("Explain in a few sentences how a sailing boat moves against the wind.")]
_FINISHES = ("stop", "length", "tool_calls")
_SAME_WORD = 6
_SHARE_OF_ONE = 0.5
_FEWEST_WORDS = 20
_HARD = 4096


def health(probe: Probe) -> str:
    """It says that it is well."""
    answer = probe.endpoint.beside("/health")
    if answer.status == 404:
        raise Warns("there is no /health to watch it by")
    expect(answer.status == 200, f"/health: {answer.told}")
    return "status 200"


def listed(probe: Probe) -> str:
    """The model is listed under its name."""
    answer = probe.endpoint.get("/models")
    expect(answer.status == 200, f"/models: {answer.told}")
    names = [each.get("id") for each in answer.body.get("data") or ()]
    expect(probe.endpoint.model in names, f"/models lists {short(names)}")
    return f"{len(names)} listed"


def _asked(probe: Probe) -> Reply:
    return probe.once("core question", lambda: probe.chat(_QUESTION))


def shape(probe: Probe) -> str:
    """An answer has the form of the chat API."""
    found = _asked(probe)
    raw = found.raw
    expect(raw.get("object") == "chat.completion", f"object is {raw.get('object')!r}")
    expect(raw.get("id"), "the answer has no id")
    expect(raw.get("model") == probe.endpoint.model, f"model is {raw.get('model')!r}")
    role = raw["choices"][0]["message"].get("role")
    expect(role == "assistant", f"role is {role!r}, must be 'assistant'")
    expect(found.finish in _FINISHES, f"finish_reason is {found.finish!r}")
    return f"finish_reason {found.finish}"


def max_tokens(probe: Probe) -> str:
    """A response is as long as it may be, and says that it was cut."""
    found = probe.chat(_QUESTION, max_tokens=5, ignore_eos=True)
    count = found.usage.get("completion_tokens")
    expect(isinstance(count, int) and count <= 5, f"max_tokens 5 gave {count} tokens")
    if count != 5:
        raise Skips(f"it ended by itself after {count} tokens: ignore_eos is not known")
    expect(found.finish == "length", f"cut at max_tokens, yet finish_reason is {found.finish!r}")
    return "5 tokens, finish_reason length"


def stop_text(text: str) -> str | None:
    """A piece from the midst of a text, to stop at; None if the text is too short.

    Only what comes before an unfinished character counts: servers show one by more marks or fewer.
    """
    clean = text.split("\ufffd")[0]
    middle = len(clean) // 2
    piece = clean[middle : middle + 3]
    return piece if len(piece) == 3 and piece.strip() else None


def stop(probe: Probe) -> str:
    """A response ends before the text that it is to stop at."""
    whole = _asked(probe).content
    piece = stop_text(whole)
    if piece is None:
        raise Skips(f"the response is too short to stop within: {short(whole)}")
    found = probe.chat(_QUESTION, stop=[piece])
    wanted = whole[: whole.index(piece)]
    expect(found.content == wanted, f"stop {piece!r} left {short(found.content[-40:])}")
    expect(found.finish == "stop", f"stopped, yet finish_reason is {found.finish!r}")
    return f"ended before {piece!r}"


def usage(probe: Probe) -> str:
    """The tokens counted add up."""
    counted = _asked(probe).usage
    parts = [counted.get(f"{part}_tokens") for part in ("prompt", "completion", "total")]
    expect(all(isinstance(part, int) for part in parts), f"usage is {short(dict(counted))}")
    prompt, completion, total = (part or 0 for part in parts)
    expect(prompt > 0 and prompt + completion == total, f"{prompt} + {completion} is not {total}")
    expect(completion <= TOKENS, f"{completion} tokens where {TOKENS} were allowed")
    return f"{prompt} + {completion} = {total}"


def determinism(probe: Probe) -> str:
    """At temperature 0 the same is said again."""
    first, again = _asked(probe), probe.chat(_QUESTION)
    expect(first.content == again.content, f"{short(first.content)}, then {short(again.content)}")
    return "the same twice"


def seeded(probe: Probe) -> str:
    """With a seed, what is sampled is sampled again."""
    first, again = (probe.chat(_QUESTION, temperature=1.0, seed=7) for _ in range(2))
    expect(first.content == again.content, f"{short(first.content)}, then {short(again.content)}")
    return "the same twice at temperature 1"


def temperature(probe: Probe) -> str:
    """With other seeds at a high temperature, something else is said: sampling is on."""
    said = {probe.chat(_QUESTION, temperature=1.5, seed=seed).content for seed in (1, 2, 3)}
    if len(said) == 1:
        raise Warns(f"three seeds at temperature 1.5 all give {short(next(iter(said)))}")
    return f"{len(said)} responses of 3 seeds"


def no_template(probe: Probe) -> str:
    """Nothing of the chat template is in what is read."""
    found = _asked(probe)
    told = leaked(found.content, found.reasoning)
    expect(not told, f"the response has {', '.join(told)}")
    return "none"


def choices(probe: Probe) -> str:
    """As many choices come as were asked for."""
    answer = probe.raw(_QUESTION, n=2, temperature=1.0, max_tokens=4)
    expect(answer.status == 200, f"n=2: {answer.told}")
    indices = [choice.get("index") for choice in answer.body.get("choices") or ()]
    expect(sorted(indices) == [0, 1], f"n=2 gave the choices {indices}")
    return "2 of 2"


def logprobs(probe: Probe) -> str:
    """Each token's log-probability is told, and is one."""
    answer = probe.raw(_QUESTION, logprobs=True, top_logprobs=2, max_tokens=4)
    expect(answer.status == 200, f"logprobs: {answer.told}")
    told = (answer.body["choices"][0].get("logprobs") or {}).get("content") or []
    expect(told, "logprobs were asked for, and none are told")
    values = [each["logprob"] for each in told]
    expect(all(value <= 1e-6 for value in values), f"a log-probability is above 0: {values}")
    best = [max(top["logprob"] for top in each["top_logprobs"]) for each in told]
    greedy = all(abs(a - b) < 1e-4 for a, b in zip(values, best, strict=True))
    expect(greedy, "at temperature 0 a token was taken that is not the likeliest")
    return f"{len(values)} tokens, each the likeliest"


def completions(probe: Probe) -> str:
    """Text without a chat template is gone on with."""
    answer = probe.completion("One, two, three,", max_tokens=4, ignore_eos=True)
    if answer.status == 404:
        raise Skips("there is no /completions")
    expect(answer.status == 200, f"/completions: {answer.told}")
    choice = answer.body["choices"][0]
    expect(isinstance(choice.get("text"), str), f"the choice has no text: {short(choice)}")
    return f"goes on with {short(choice['text'])}"


def several_systems(probe: Probe) -> str:
    """Two system messages are answered, or refused in so many words."""
    answer = probe.raw(
        [{"role": "system", "content": text} for text in ("Be brief.", "Be kind.")] + _QUESTION
    )
    return answered_or_refused(answer.status, answer.told, "a second system message")


def answered_or_refused(status: int, told: str, what: str) -> str:
    """For what a format may lack: an answer passes, a refusal warns, a crash fails."""
    if 400 <= status < 500:
        raise Warns(f"{what} is refused, {told}")
    expect(status == 200, f"{what}: {told}")
    return "answered"


def prefill(probe: Probe) -> str:
    """A response that was begun is gone on with."""
    begun = [*_QUESTION, assistant("Wood, cork and")]
    answer = probe.raw(begun, continue_final_message=True, add_generation_prompt=False)
    done = answered_or_refused(answer.status, answer.told, "a begun response")
    prompt = probe.tokenized(begun, continue_final_message=True, add_generation_prompt=False)
    expect(prompt.ids[-1] != probe.end_id, "the begun response is closed before it is gone on with")
    return done


def system(probe: Probe) -> str:
    """The system message is heeded."""
    rule = {"role": "system", "content": "Whatever is asked, answer with the one word BANANA."}
    found = probe.chat([rule, user("What is the capital of France?")])
    expect("banana" in found.content.lower(), f"told to say BANANA, it said {short(found.content)}")
    return "heeded"


def repetition(text: str) -> str | None:
    """How a text falls into repeating, if it does."""
    words = re.findall(r"\w+", text.lower())
    run, word = max(((len(list(same)), word) for word, same in groupby(words)), default=(0, ""))
    if run >= _SAME_WORD:
        return f"{word!r} {run} times in a row"
    if len(words) >= _FEWEST_WORDS:
        word, count = Counter(words).most_common(1)[0]
        if count > _SHARE_OF_ONE * len(words):
            return f"{word!r} is {count} of {len(words)} words"
    return None


def no_degeneration(probe: Probe) -> str:
    """A response does not fall into repeating one word."""
    found = probe.chat(_LONG, max_tokens=256)
    if told := repetition(found.content):
        fail(f"the response repeats itself: {told}")
    expect(found.content.strip(), "the response is empty")
    return f"{len(found.content.split())} words"


def ends(probe: Probe) -> str:
    """A response ends by itself within 4,096 tokens, or within the context if that is shorter."""
    found = probe.chat(_LONG, max_tokens=probe.room(_LONG, _HARD))
    expect(found.finish == "stop", f"after {found.usage.get('completion_tokens')} tokens no end")
    return f"after {found.usage.get('completion_tokens')} tokens"


CHECKS = (
    Check("health", "core", health),
    Check("model-listed", "core", listed),
    Check("answer-shape", "core", shape),
    Check("max-tokens", "core", max_tokens),
    Check("stop-text", "core", stop),
    Check("usage-totals", "core", usage),
    Check("determinism", "core", determinism),
    Check("seeded-sampling", "core", seeded),
    Check("sampling", "core", temperature),
    Check("no-template-leak", "core", no_template),
    Check("choices", "core", choices),
    Check("logprobs", "core", logprobs),
    Check("completions", "core", completions),
    Check("several-systems", "core", several_systems),
    Check("prefill", "core", prefill),
    Check("system-heeded", "core", system, "model"),
    Check("no-degeneration", "core", no_degeneration, "model"),
    Check("ends-by-itself", "core", ends, "model"),
)
