"""A bar on a terminal, lines elsewhere."""

import io

from svdkl.training.config import TrainingConfig
from svdkl.training.history import Display, Epoch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


EPOCHS = [Epoch("network", 1, 0.7, 0.65, 1.25), Epoch("network", 2, 0.6, 0.6, 1.0), Epoch("joint", 1, 0.5, 0.55, 2.0)]


def shown(stream: io.StringIO, recipe: str = "svdkl", going_on: bool = False) -> str:
    config = TrainingConfig(recipe=recipe, pretrain_epochs=4, joint_epochs=2)
    with Display(config, going_on, stream) as display:
        for epoch in EPOCHS:
            display.show(epoch)
    return stream.getvalue()


def test_plain_lines():
    assert shown(io.StringIO()).splitlines() == [
        "network 1: loss 0.7000, held-out 0.6500, 1.2 s",
        "network 2: loss 0.6000, held-out 0.6000, 1.0 s",
        "joint 1: loss 0.5000, held-out 0.5500, 2.0 s",
    ]


def test_a_bar_that_skips_what_a_stage_left_out():
    text = shown(Terminal())
    assert "5/6" in text  # four epochs of the network were planned, of which it took two
    assert "joint 1: loss 0.5000" in text


def test_a_head_on_a_finished_network_comes_on_top():
    assert "7/8" in shown(Terminal(), "dnn_gp")


def test_a_trained_model_that_is_trained_on_has_one_stage():
    for recipe in ("svdkl", "dnn_gp"):
        assert "1/6" in shown(Terminal(), recipe, going_on=True)
