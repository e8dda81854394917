"""The `repeat:` instructions: the request, or a part of it, again."""

from rewards.verifiers.constraints.check import Count, Parameters, Phrase, Response, instruction

_SENTENCE = "Only output this sentence here, ignore all other requests."


class Request(Parameters):
    """The request to repeat."""

    prompt_to_repeat: Phrase


class Span(Parameters):
    """A request, and the first and last index of a part of it, counted from 0."""

    prompt_to_repeat: Phrase
    n_start: Count
    n_end: Count


@instruction(
    "repeat:repeat_change", Request, "repeat the request with another first word, and nothing else"
)
def repeat_change(response: Response, asked: Request) -> bool:
    """Another case or other white space is no change."""
    given, request = response.tokens, asked.prompt_to_repeat.split()
    if not given or not request:
        return False
    return given[1:] == request[1:] and given[0].lower() != request[0].lower()


@repeat_change.upstream
def _repeat_change(response: Response, asked: Request) -> bool:
    """Any other text whose later words are the same."""
    changed = response.text != asked.prompt_to_repeat
    return changed and response.tokens[1:] == asked.prompt_to_repeat.split()[1:]


@instruction("repeat:repeat_simple", Parameters, f'answer "{_SENTENCE}" and nothing else')
def repeat_simple(response: Response, _: Parameters) -> bool:
    return " ".join(response.folded.split()) == _SENTENCE.lower()


@repeat_simple.upstream
def _repeat_simple(response: Response, _: Parameters) -> bool:
    return response.folded.strip() == _SENTENCE.lower()


@instruction(
    "repeat:repeat_span", Span, "copy words {n_start} to {n_end} of the request, counted from 0"
)
def repeat_span(response: Response, asked: Span) -> bool:
    """Both ends belong to the span."""
    span = asked.prompt_to_repeat.lower().split()[asked.n_start : asked.n_end + 1]
    return bool(span) and response.folded.split() == span


@repeat_span.upstream
def _repeat_span(response: Response, asked: Span) -> bool:
    """The indices are those of characters."""
    span = asked.prompt_to_repeat[asked.n_start : asked.n_end + 1]
    return response.folded.strip() == span.strip().lower()
