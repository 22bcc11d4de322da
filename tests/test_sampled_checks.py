"""What checks arguments and results of the package's functions while testing."""

import sys

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

import sampled_checks
from egorecovery.randomness import generator_for

sampled_only = pytest.mark.skipif(sampled_checks.EVERY == 1, reason="a thorough run checks every call")


@sampled_checks.checked
def _sum(left: Float[np.ndarray, " n"], right: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return left[:1] + right[:1] if len(left) != len(right) else left + right


def test_functions_of_the_package_are_checked():
    with pytest.raises(TypeCheckError, match="generator_for"):
        generator_for(seed="nought", purpose="tests")


def test_shapes_that_do_not_agree_are_named():
    with pytest.raises(TypeCheckError, match="_sum"):
        _sum(np.zeros(2), np.zeros(3))


@sampled_only
def test_after_the_first_calls_in_a_test_one_in_some_is_checked():
    for _ in range(sampled_checks.FIRST):
        _sum(np.zeros(2), np.zeros(2))
    refused = 0
    for _ in range(4 * sampled_checks.EVERY):
        try:
            _sum(np.zeros(2), np.zeros(3))
        except TypeCheckError:
            refused += 1
    assert refused == 4


@sampled_only
def test_every_test_begins_with_checked_calls():
    with pytest.raises(TypeCheckError):
        _sum(np.zeros(2), np.zeros(3))


def test_kernels_are_left_as_they_are_written():
    """Triton compiles a kernel with the names of the module that it finds it in: a check around it would hide them."""
    pytest.importorskip("egorecovery.acceleration.modules", exc_type=ImportError)  # imports all kernels
    kernels = [
        (module, function)
        for name, module in list(sys.modules.items())
        if name.startswith("egorecovery.acceleration.kernels.")
        for function in map(python_function, vars(module).values())
        if getattr(function, "__no_type_check__", False)
    ]
    assert len(kernels) > 40
    for module, kernel in kernels:
        assert kernel.__globals__ is vars(sys.modules[kernel.__module__]), f"{module.__name__}.{kernel.__name__}"


def python_function(value: object) -> object:
    """Of a Triton kernel where Triton is installed."""
    return getattr(value, "fn", value)
