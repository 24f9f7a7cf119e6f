"""Inductor itself, on a plain, a paired and a laned stream: forward and gradients equal eager's."""

import shutil

import pytest
import torch

from addnorm.contract import example, random_loss
from addnorm.models import build
from tests.tolerances import assert_close

no_compiler = shutil.which("g++") is None and shutil.which("clang++") is None


@pytest.mark.skipif(no_compiler, reason="Inductor needs a C++ compiler, and there is none here")
@pytest.mark.parametrize("name", ["pre_ln", "b2t", "hyper_connections"])
def test_inductor_computes_what_eager_computes(name):
    model = build(name, mode="decoder", vocab=13, width=16, heads=2, depth=2)
    batch = example("decoder")
    eager = model(*batch)
    random_loss(eager).backward()
    wanted = {key: parameter.grad.clone() for key, parameter in model.named_parameters()}
    model.zero_grad()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True)(*batch)
    random_loss(compiled).backward()
    assert_close(compiled, eager)
    for key, parameter in model.named_parameters():
        assert_close(parameter.grad, wanted[key])
