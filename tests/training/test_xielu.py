import torch
from transformers.activations import XIELUActivation

from posttrain.training import xielu


def _pair() -> tuple[XIELUActivation, XIELUActivation]:
    library, ours = (XIELUActivation(dtype=torch.float64) for _ in range(2))
    for activation in (library, ours):
        activation.alpha_p.data.fill_(0.3)
        activation.alpha_n.data.fill_(-0.7)
    xielu.quicken(torch.nn.Sequential(ours))
    return library, ours


def test_values_and_gradients_are_the_library_s() -> None:
    x = torch.linspace(-6, 6, 2000, dtype=torch.float64)  # Even: leaves out 0, where they differ.
    results = []
    for activation in _pair():
        given = x.clone().requires_grad_()
        value = activation(given)
        (value * x.cos()).sum().backward()
        results.append((value, given.grad, activation.alpha_p.grad, activation.alpha_n.grad))
    for library, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, library, rtol=1e-6, atol=1e-5)


def test_its_gradient_is_that_of_its_value() -> None:
    x = torch.linspace(-3, 3, 12, dtype=torch.float64, requires_grad=True)
    _, ours = _pair()
    assert torch.autograd.gradcheck(ours, (x,))


def test_parameters_stay_as_they_are() -> None:
    library, ours = _pair()
    assert ours.state_dict().keys() == library.state_dict().keys()
