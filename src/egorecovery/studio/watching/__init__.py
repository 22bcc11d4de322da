"""The rollout viewer: videos of evaluated rollouts with gate and intent below."""

from egorecovery.studio.watching.routes import watch_app

__all__ = ["watch_app"]
