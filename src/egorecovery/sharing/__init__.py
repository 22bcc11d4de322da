"""Checkpoints and stores on a Hugging Face hub: pushed and pulled by repository id, only where a user asks for it."""

from egorecovery.sharing.cards import card_of
from egorecovery.sharing.hub import Pulled, Pushed, SharingError, kind_of, pull, push

__all__ = ["Pulled", "Pushed", "SharingError", "card_of", "kind_of", "pull", "push"]
