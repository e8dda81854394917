"""What recipes may say of preference stages."""

from typing import Any

import pytest

from posttrain.stages import dpo, qrpo, reference

STEPS: dict[str, Any] = {
    "from": "sft", "steps": 2, "batch": 2, "optimizer": {"adamw": {"lr": 1e-6}},
}  # fmt: skip
DPO = STEPS | {"data": "pairs", "objective": {}}
ONLINE = {
    "judge": {"verifier": "judge"}, "group": 2, "lengths": {"prompt": 8, "response": 8},
}  # fmt: skip
TRACK = {"completions": "drawn", "scores": "scored", "reference": "likely"}
QRPO = STEPS | {"tracks": {"standard": TRACK}, "objective": {"beta": 5}}


def test_inputs_are_what_the_config_names() -> None:
    live = dpo.Config.model_validate(DPO | {"watch": ["held"]})
    assert live.inputs() == {"from": "sft", "data.pairs": "pairs"}
    assert (live.suites(), live.services()) == (("held",), ())
    ahead = dpo.Config.model_validate(DPO | {"reference": "likely"})
    assert ahead.inputs()["reference"] == "likely"
    online = dpo.Config.model_validate(DPO | {"online": ONLINE})
    assert online.services() == ("rewards",)
    assert qrpo.Config.model_validate(QRPO).inputs() == {
        "from": "sft", "completions.standard": "drawn", "scores.standard": "scored",
        "reference.standard": "likely",
    }  # fmt: skip
    made = reference.Config.model_validate({"from": "sft", "completions": "drawn"})
    assert made.inputs() == {"from": "sft", "completions": "drawn"}


@pytest.mark.parametrize(
    ("config", "asked", "told"),
    [
        (dpo, DPO | {"reference": "likely", "refresh_every": 2}, "stays what it is"),
        (dpo, DPO | {"online": ONLINE, "length": 8}, "has no length"),
        (dpo, DPO | {"online": ONLINE, "reference": "likely"}, "has no reference"),
        (dpo, DPO | {"online": ONLINE, "data": {"a": 0.5, "b": 0.5}}, "one set of prompts"),
        (dpo, DPO | {"online": ONLINE | {"group": 1}}, "greater than or equal to 2"),
        (dpo, DPO | {"data": {"a": 0.5, "b": 0.4}}, "add up to 100%"),
        (reference, {"from": "sft"}, "name one of them"),
        (reference, {"from": "sft", "data": "a", "completions": "b"}, "name one of them"),
        (qrpo, QRPO | {"refresh_every": 2}, "remove refresh_every"),
        (
            qrpo,
            QRPO | {"tracks": {"a": TRACK, "b": TRACK | {"reference": None}}},
            "all tracks have a reference stage",
        ),
        (qrpo, QRPO | {"objective": {"beta": 5, "length_normalized": False}}, "above cap"),
        (
            qrpo,
            QRPO | {"tracks": {"a": TRACK | {"share": 0.5}, "b": TRACK | {"share": 0.4}}},
            "add up to 100%",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(
    config: Any, asked: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        config.Config.model_validate(asked)
