"""The recipe's picture size, where the store's pictures have another one."""

from collections import Counter
from dataclasses import replace

from egorecovery.episodes import EpisodeStore
from egorecovery.errors import RecipeError
from egorecovery.training.recipe import Recipe
from egorecovery.training.splits import Pools


def with_picture_size(recipe: Recipe, store: EpisodeStore, pools: Pools) -> Recipe:
    """The recipe for pictures as they are in the store: a policy takes any size, but only one."""
    counts = Counter(
        store.frames(episode, camera).size_hw for _, episode in pools.episodes for camera in recipe.policy.cameras
    )
    sizes = {f"{width} x {height}": count for (height, width), count in counts.most_common()}
    again = "import it again into another store with --image-size SIDE, as in --image-size 96"
    if len(counts) > 1:
        listed = ", ".join(f"{count} of {size}" for size, count in sizes.items())
        raise RecipeError(f"{store.root}: films of {recipe.task} have several sizes ({listed}); {again}")
    [(height, width)] = counts
    if height != width:
        raise RecipeError(f"{store.root}: pictures are {width} x {height}, and policies take squares; {again}")
    return replace(recipe, policy=replace(recipe.policy, image_size=height))
