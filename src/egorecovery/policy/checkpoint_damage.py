"""Everything that is wrong with a checkpoint."""

from pathlib import Path

from egorecovery.errors import EgoRecoveryError
from egorecovery.policy.checkpoint import CARD, FILES, open_checkpoint
from egorecovery.storage.checksummed_json import file_sha256
from egorecovery.storage.containment import exists, inside, is_file, names_in
from egorecovery.storage.manifest import Damage

ADVICE = "use another checkpoint, or restore it from a copy"


def checkpoint_damages(folder: Path) -> list[Damage]:
    """One that lacks the training's state is whole: a policy needs only its weights and the card."""
    try:
        saved = open_checkpoint(folder)
    except (EgoRecoveryError, OSError) as error:
        return [Damage(folder / CARD, str(error), ADVICE)]
    damages = [
        Damage(saved.path / name, "is not part of a checkpoint", "remove it")
        for name in names_in(saved.path)
        if name not in (CARD, *FILES)
    ]
    for name in FILES:
        path = saved.path / name
        if name == FILES[1] and not exists(path):
            continue
        try:
            if not is_file(path) or file_sha256(inside(saved.path, name)) != saved.files.get(name):
                damages.append(Damage(path, "is missing or has changed: its SHA-256 is not the card's", ADVICE))
                continue
            if name == FILES[0]:
                saved.weights()
            else:
                saved.training_state()
        except (EgoRecoveryError, OSError) as error:
            damages.append(Damage(path, str(error), ADVICE))
    try:
        _ = saved.config
    except (EgoRecoveryError, OSError) as error:
        damages.append(Damage(saved.path / CARD, str(error), ADVICE))
    return damages
