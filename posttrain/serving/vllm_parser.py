"""What vLLM needs in order to read responses by token id: its parser, made of `ResponseReader`.

vLLM has one parser do both, thinking and tool calls, if the adapters that it is given under two
names stand for the same engine; only such a parser is shown the ids of a whole response. Written
for vLLM 0.28; a test against a live server holds what it relies on.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from vllm.entrypoints.chat_utils import make_tool_call_id
from vllm.entrypoints.openai.engine.protocol import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    FunctionCall,
)
from vllm.parser.engine.parser_engine import ParserEngine
from vllm.reasoning import ReasoningParser, ReasoningParserManager
from vllm.sampling_params import StructuredOutputsParams
from vllm.tool_parsers import ToolParser, ToolParserManager

from posttrain.data.chat import ChatFormat
from posttrain.serving.forced import forced, read, schema
from posttrain.serving.manifest import PARSER
from posttrain.serving.reading import Allowance, Markers, Reply, ResponseReader, Said, Told

_TOLD = "told in full"


@lru_cache(maxsize=2)
def _markers(tokenizer: Any) -> Markers:
    return Markers.of(ChatFormat.from_tokenizer(tokenizer))


class IdParser(ParserEngine):  # type: ignore[misc]  # vLLM is not checked
    """Parses one response; a stream has one of its own."""

    def __init__(self, tokenizer: Any, tools: Any = None, **kwargs: Any) -> None:
        # Nothing of the base is used: it is what vLLM asks the class to be.
        self.model_tokenizer = tokenizer
        self._reasoning_parser = self._tool_parser = None
        self._markers = _markers(tokenizer)
        template = kwargs.get("chat_template_kwargs") or {}
        self._thinks = bool(template.get("force_thinking"))
        self._reader = self._fresh()
        self._allowance = Allowance(tokenizer)
        self._calls = 0
        self._forced = ""

    def _fresh(self) -> ResponseReader:
        return ResponseReader(self.model_tokenizer, self._markers, thinks=self._thinks)

    def adjust_request(self, request: Any) -> Any:
        """Have a call that the request demands generated as JSON."""
        if (choice := forced(request)) is not None:
            request.structured_outputs = StructuredOutputsParams(
                json=schema(choice, self._markers.decode)
            )
            request.response_format = None
        request.skip_special_tokens = False
        return request

    def parse(
        self, model_output: str, request: Any, enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> tuple[str | None, str | None, list[FunctionCall] | None]:  # fmt: skip
        """Thoughts, content and calls of a whole response."""
        reader, ids, rest = self._fresh(), list(model_output_token_ids), ""
        if stops := _stops(request):
            allowance = Allowance(self.model_tokenizer)
            ids = allowance.admit(ids, len(model_output))
            more, rest = allowance.rest(stops)
            ids += more
        reply = Reply.of([*reader.feed(ids), *reader.finish(rest)])
        content, calls = reply.content, list(reply.calls)
        if forced(request) is not None and content and not calls:
            content, calls = read(content, self._markers.decode)
        told = [
            FunctionCall(id=make_tool_call_id(), name=call.name, arguments=call.arguments)
            for call in calls
        ]
        return reply.thoughts, content, self._wanted(request, told) or None

    def parse_delta(
        self, delta_text: str, delta_token_ids: list[int], request: Any,
        prompt_token_ids: list[int] | None = None, *, finished: bool,
    ) -> DeltaMessage | None:  # fmt: skip
        """What the next ids of a stream tell."""
        ids, rest = delta_token_ids, ""
        if stops := _stops(request):
            ids = self._allowance.admit(delta_token_ids, len(delta_text))
            if finished:
                more, rest = self._allowance.rest(stops)
                ids += more
        told = list(self._reader.feed(ids))
        if finished:
            told += self._reader.finish(rest)
        if forced(request) is not None:
            told = self._without_forced(told, finished)
        return self._delta(told, request)

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether no thoughts are open: what is demanded of the response holds from there on."""
        opens, closes = (self._markers.id_of(f"<|inner_{side}|>") for side in ("prefix", "suffix"))
        for token in reversed(input_ids):
            if token in (opens, closes):
                return token == closes
        return True

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The ids after the thoughts."""
        closes = self._markers.id_of("<|inner_suffix|>")
        place = [number for number, token in enumerate(input_ids, 1) if token == closes]
        return input_ids[place[-1] :] if place else input_ids

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """How many ids lie within thoughts."""
        opens, closes = (self._markers.id_of(f"<|inner_{side}|>") for side in ("prefix", "suffix"))
        count, within = 0, self._thinks
        for token in token_ids:
            within = token == opens or (within and token != closes)
            count += within and token != opens
        return count

    def _delta(self, told: Sequence[Told], request: Any) -> DeltaMessage | None:
        reply = Reply.of(told)
        calls = []
        for call in self._wanted(request, list(reply.calls)):
            function = DeltaFunctionCall(name=call.name, arguments=call.arguments)
            calls.append(
                DeltaToolCall(
                    index=self._calls, id=make_tool_call_id(), type="function", function=function
                )
            )
            self._calls += 1
        thoughts = reply.thoughts if request.include_reasoning else None
        if not (thoughts or reply.content or calls):
            return None
        return DeltaMessage(reasoning=thoughts, content=reply.content, tool_calls=calls)

    def _wanted(self, request: Any, calls: list[Any]) -> list[Any]:
        """The calls a client may be given: none where it forbade them."""
        return calls if request.tools and request.tool_choice != "none" else []

    def _without_forced(self, told: Sequence[Told], finished: bool) -> list[Told]:
        """Holds the JSON of a demanded call back until it is whole."""
        kept: list[Told] = []
        for each in told:
            if isinstance(each, Said) and each.channel == "content":
                self._forced += each.text
            else:
                kept.append(each)
        if not finished or not self._forced:
            return kept
        content, calls = read(self._forced, self._markers.decode)
        return [*kept, *([Said("content", content)] if content else []), *calls]


def _stops(request: Any) -> Sequence[str]:
    """The texts that end the response; where they are part of it, nothing is cut."""
    if not request.stop or request.include_stop_str_in_output:
        return ()
    return [request.stop] if isinstance(request.stop, str) else list(request.stop)


class IdReasoningParser(ReasoningParser):  # type: ignore[misc]
    """The parser, as vLLM's engine asks it when thoughts end."""

    _parser_engine_cls = IdParser
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self._parser = IdParser(tokenizer, **kwargs)

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """As of the parser."""
        return self._parser.is_reasoning_end(input_ids)

    def is_reasoning_end_streaming(
        self, input_ids: Sequence[int], delta_ids: Iterable[int]
    ) -> bool:
        """Whether thoughts are over after `delta_ids`."""
        return self._parser.is_reasoning_end(input_ids)

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """As of the parser."""
        return self._parser.extract_content_ids(input_ids)

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """Never asked: the parser as a whole reads responses."""
        raise NotImplementedError(_TOLD)

    def extract_reasoning_streaming(self, *args: Any) -> None:
        """Never asked either."""
        raise NotImplementedError(_TOLD)


class IdToolParser(ToolParser):  # type: ignore[misc]
    """The parser under the name that vLLM asks for tool calls."""

    _parser_engine_cls = IdParser
    engine_based_streaming = True


IdParser.reasoning_parser_cls = IdReasoningParser
IdParser.tool_parser_cls = IdToolParser


def register() -> None:
    """Make the parser known to vLLM."""
    ReasoningParserManager.register_module(PARSER, module=IdReasoningParser)
    ToolParserManager.register_module(PARSER, module=IdToolParser)
