"""The rollout viewer: films of evaluated rollouts with gate and intent under them."""

from egorecovery.studio.watching.routes import watch_app

__all__ = ["watch_app"]
