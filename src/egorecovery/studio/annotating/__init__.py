"""Browse and Annotate: a store's clips in the browser, one boundary each."""

from egorecovery.studio.annotating.routes import annotate_app

__all__ = ["annotate_app"]
