"""How far two scorers agree."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from egorecovery.evaluation.rater_agreement import AgreementError, agreement

VERDICTS = st.sampled_from(["success", "failure"])
PAIRS = st.lists(st.tuples(VERDICTS, VERDICTS), min_size=1, max_size=60)


@settings(deadline=None)
@given(PAIRS)
def test_kappa_is_that_of_scikit_learn(pairs):
    first, second = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one verdict throughout
        expected = cohen_kappa_score(first, second)
    found = agreement(first, second).kappa
    if found is None:
        assert expected != expected
    else:
        assert found == pytest.approx(expected, abs=1e-12)


@given(PAIRS)
def test_agreement_does_not_depend_on_who_is_called_first(pairs):
    first, second = zip(*pairs, strict=True)
    assert agreement(first, second) == agreement(second, first)


@given(st.lists(VERDICTS, min_size=1, max_size=30))
def test_a_scorer_agrees_with_themselves(verdicts):
    found = agreement(verdicts, verdicts)
    assert found.raw == 1
    assert found.kappa == (1 if len(set(verdicts)) == 2 else None)


def test_an_agreement_says_its_counts():
    found = agreement(["success", "success", "failure", "failure"], ["success", "failure", "failure", "failure"])
    assert str(found) == "3/4 (75.0%), Cohen's kappa 0.50"
    assert "not defined" in str(agreement(["success"], ["success"]))


def test_verdicts_on_other_rollouts_are_not_compared():
    with pytest.raises(AgreementError, match="got 1, 2"):
        agreement(["success"], ["success", "failure"])
    with pytest.raises(AgreementError, match="no rollouts"):
        agreement([], [])
