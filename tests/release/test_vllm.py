"""A small model behind vLLM's own server: what is about the server holds, all the way."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import ApertusConfig, ApertusForCausalLM

from posttrain.equivalence.served import served_faults
from posttrain.release.endpoint import Endpoint
from posttrain.release.probe import Probe, assembled, user
from posttrain.release.suite import CHECKS, run
from posttrain.serving.manifest import read
from posttrain.serving.server import Served, Server
from posttrain.serving.side_by_side import serving
from tests.evaluation.tiny_model import chat_format

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
NAME = "tiny/sft@1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model that vLLM's CPU kernels can attend with (heads of 32)."""
    made, chat = tmp_path_factory.mktemp("tiny") / "model", chat_format()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ApertusForCausalLM(
            ApertusConfig(
                vocab_size=len(chat.tokenizer), hidden_size=64, intermediate_size=96,
                num_hidden_layers=2, num_attention_heads=2, initializer_range=0.2,
                rope_parameters={"rope_type": "default", "rope_theta": 200.0},
                tie_word_embeddings=True, max_position_embeddings=1024, bos_token_id=1,
                eos_token_id=2, pad_token_id=3, dtype="float32",
            )
        )  # fmt: skip
    model.generation_config.eos_token_id = chat.stop_ids
    model.save_pretrained(made)
    chat.tokenizer.save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    logs = tmp_path_factory.mktemp("logs")
    with serving(
        [Served(NAME, folder, read(folder))], host="127.0.0.1", port=None, folder=logs,
        backend="cpu", told=print,
    ) as [found]:  # fmt: skip
        yield found


def test_nothing_about_the_server_fails(server: Server) -> None:
    probe = Probe(Endpoint(server.url, NAME))
    report = run(probe, CHECKS, model_checks="warn", told=print)
    assert report.lost is None
    assert [each for each in report.results if each.outcome == "fail"] == []
    warned = {each.name for each in report.results if each.outcome == "warn"}
    about_the_model = {each.name for each in CHECKS if each.subject == "model"}
    # vLLM tokenises a rendered text: what a user spells becomes a token.
    stock = {"several-systems", "spelled-markers", "injected-role", "sampling"}
    assert warned <= about_the_model | stock
    skipped = {each.name for each in report.results if each.outcome == "skip"}
    may_be_too_short = {"stop-text", "stream-stop", "stream-chunks"}
    assert skipped <= {e.name for e in CHECKS if e.group == "multimodal"} | may_be_too_short


def test_it_renders_and_ends_as_it_was_trained(server: Server, folder: Path) -> None:
    assert list(served_faults(folder, Endpoint(server.url, NAME))) == []


def test_thoughts_are_streamed_as_they_are_told_whole(server: Server) -> None:
    probe = Probe(Endpoint(server.url, NAME))
    kwargs = {"enable_thinking": True, "force_thinking": True}
    asked = {"chat_template_kwargs": kwargs, "max_tokens": 24, "logit_bias": {"13": 4}}
    whole = probe.chat([user("Add up a3 b4.")], **asked)
    streamed = assembled(probe.streamed([user("Add up a3 b4.")], **asked))
    assert whole.reasoning
    assert (streamed.reasoning, streamed.content) == (whole.reasoning, whole.content)
