"""How SDPO's teacher follows the student (arXiv 2601.20802, section on regularised teachers).

A frozen teacher needs nothing of this.
"""

import torch

from posttrain.objectives.reduction import precise, same_shape


def ema(teacher: torch.Tensor, student: torch.Tensor, rate: float) -> torch.Tensor:
    """Moving average of a parameter, (1 - rate) teacher + rate student; any shape, no gradient.

    To be applied after each update of the student with a finite gradient. ValueError for a teacher
    in half precision, where small updates would round away.
    """
    same_shape(teacher, student)
    if teacher.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"a moving average in {teacher.dtype} stands still: keep it in float32")
    return torch.lerp(teacher.detach(), student.detach().to(teacher.dtype), rate)


def trust_region(reference: torch.Tensor, student: torch.Tensor, rate: float) -> torch.Tensor:
    """The teacher's logits: `rate` of the way from the reference's to the student's; no gradient.

    Both (..., vocabulary), of one prompt: the teacher's. ValueError for different vocabularies.
    """
    same_shape(reference, student)
    return torch.lerp(precise(reference.detach()), precise(student.detach()), rate)
