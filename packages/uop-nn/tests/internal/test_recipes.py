"""Each schedule and optimizer that the options name is there."""

import pytest

from uop_nn.mlp import Mlp
from uop_nn.options import TrainOptions
from uop_nn.recipes import learning_rate, train_step
from uop_nn.train_mnist import MnistOptions


def choices(option: str) -> tuple[str, ...]:
    found: tuple[str, ...] = TrainOptions.__dataclass_fields__[option].metadata["choices"]
    return found


@pytest.mark.parametrize("name", choices("schedule"))
def test_a_schedule_rises_to_the_rate_and_ends_below_it_unless_it_is_constant(name: str) -> None:
    rate = learning_rate(MnistOptions(steps=30, warmup=6, lr=0.5, schedule=name))
    rates = [rate(step) for step in range(30)]
    assert rates[0] < max(rates) == pytest.approx(0.5, rel=0.01)
    assert (rates[-1] < 0.1) == (name != "constant")


@pytest.mark.parametrize("name", choices("optimizer"))
def test_an_optimizer_has_all_parameters(name: str) -> None:
    model = Mlp(inputs=4, hidden=3, classes=2)
    step = train_step(model, model.loss, MnistOptions(optimizer=name), matrices=[model.hidden.weight])
    assert {id(p) for p in step.optimizer.parameters} == {id(p) for p in model.parameters()}
