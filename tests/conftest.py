"""Array shapes named in signatures are checked here and nowhere else: users do not pay for it."""

import os

import sampled_checks

# One thread in this process and in all it starts: results of small trainings depend on the number in their last bits,
# and threads of several processes on the same cores wait for each other by spinning.
os.environ["OMP_NUM_THREADS"] = "1"
sampled_checks.install()

import numpy as np  # noqa: E402 - the hook must come before anything of egorecovery
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from egorecovery.episodes import EpisodeStore  # noqa: E402
from making import make_episode  # noqa: E402

# A busy machine is no failure: how long an example takes is not asserted.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests first: handed out last, they would keep one process busy while the others are done."""
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)


def pytest_runtest_setup() -> None:
    sampled_checks.next_test()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def store(tmp_path) -> EpisodeStore:
    """A store with one small episode of each source."""
    from egorecovery.episodes import Source

    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        for source in Source:
            writer.add(make_episode(f"{source}-0", source=source))
    return store


@pytest.fixture(scope="session")
def made_up(tmp_path_factory) -> EpisodeStore:
    """A labelled store to train on in seconds; not to be changed."""
    from training_store import make_made_up_store

    return make_made_up_store(tmp_path_factory.mktemp("made_up") / "store")


@pytest.fixture(scope="session")
def simulated(tmp_path_factory) -> EpisodeStore:
    """Episodes of the workcell, labelled; takes a minute to make."""
    from training_store import make_simulated_store

    return make_simulated_store(tmp_path_factory.mktemp("simulated") / "store")
