"""What the demo makes of its rollouts: one sentence, the starts to film, a page that stands alone."""

import re

import numpy as np
import pytest

from egorecovery.demo import METHODS, DemoPlan
from egorecovery.demo.details import trained_here
from egorecovery.demo.films import BORDER_PX, Film, encode, with_ending
from egorecovery.demo.outcomes import Outcomes
from egorecovery.demo.page import write_page
from egorecovery.evaluation import RolloutRecord, Subject


def rollout(method: str, regime: str, index: int, succeeded: bool) -> RolloutRecord:
    return RolloutRecord(
        subject=Subject(policy=method),
        task="cube_stack",
        regime=regime,
        index=index,
        start={"mode": "fallen"},
        protocol={"starts_seed": "comparison"},
        outcome="success" if succeeded else "failure",
        reason="",
        duration_s=9.0,
        retries=0,
        decisions=1,
    )


def outcomes(*failures: str) -> Outcomes:
    """From failures, a string per policy, in the order of METHODS; + for success. Ordinary starts all succeed."""
    return Outcomes(
        {
            method: [rollout(method, "recovery", index, sign == "+") for index, sign in enumerate(signs)]
            + [rollout(method, "initial", index, True) for index in range(len(signs))]
            for method, signs in zip(METHODS, failures, strict=True)
        }
    )


@pytest.mark.parametrize(
    ("without", "with_clips", "ending"),
    [
        ("-" * 12, "+" * 12, "from 12 of 12 failures, without them from 0."),
        ("+" * 12, "-" * 12, "from 0 of 12 failures, without them from 12: here they do harm."),
        ("+-" * 6, "++" * 2 + "+-" * 4, "from 8 of 12 failures, without them from 6: too close to call."),
    ],
)
def test_the_sentence_is_read_from_the_counts(without, with_clips, ending):
    assert outcomes("-" * 12, without, with_clips).sentence(DemoPlan()).endswith(ending)


def test_starts_to_film_are_the_first_of_the_most_frequent_ways_to_differ():
    found = outcomes("-----+", "-+--++", "+-+--+")  # only clips: 0, 2; only robot recoveries: 1; all or none: 3, 4, 5
    assert [(start.index, start.pattern) for start in found.to_film(3)[:2]] == [
        (0, (False, False, True)),
        (1, (False, True, False)),
    ]
    assert [start.index for start in outcomes("--", "--", "--").to_film(1)] == [0]


def page(tmp_path, summary_changes=None):
    found, plan = outcomes("----", "--++", "++++"), DemoPlan()
    cards = {method: {"training": {"seconds": 60.0}} for method in METHODS}
    summary = {**found.summary(plan), **trained_here(plan, cards, "report.html"), **(summary_changes or {})}
    starts = [
        (
            start,
            {
                method: Film(name=f"{start.index}_{method}.mp4", succeeded=ok, seconds=9.0, reason="")
                for method, ok in zip(METHODS, start.pattern, strict=True)
            },
        )
        for start in found.to_film(2)
    ]
    return write_page(tmp_path, summary, starts).read_text()


def test_the_page_stands_alone_and_shows_films_counts_and_why_these_starts(tmp_path):
    html = page(tmp_path)
    assert not re.search(r"https?:|//cdn", html)
    assert len(re.findall(r"<video [^>]*muted loop autoplay playsinline", html)) == 2 * len(METHODS)
    assert "Failure 1 of 4, chosen because the policies differ here." in html
    assert "It ends like this in 2 of the 4 failures." in html
    assert html.index("<video") < html.index("How often they succeed") < html.index("<details>")
    for count in ("<b>0</b> of 4", "<b>2</b> of 4", "<b>4</b> of 4"):
        assert count in html
    assert html.count('class="whisker"') == 2 * len(METHODS)


def test_the_page_escapes_what_it_is_given(tmp_path):
    html = page(tmp_path, {"sentence": "<script>alert(1)</script>"})
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def test_a_film_ends_framed_in_its_outcome_and_is_as_long_as_the_others(tmp_path):
    pictures = [np.full((64, 64, 3), shade, np.uint8) for shade in (10, 20, 30)]
    shown = list(with_ending(pictures, succeeded=True, length=9))
    assert len(shown) == 9
    assert (shown[-1][BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX] == 30).all()
    green, red = (list(with_ending(pictures, succeeded=ok, length=9))[-1][0, 0] for ok in (True, False))
    assert green[1] > green[0]
    assert red[0] > red[1]
    encode(iter(shown), tmp_path / "film.mp4")
    assert (tmp_path / "film.mp4").read_bytes()[4:8] == b"ftyp"
