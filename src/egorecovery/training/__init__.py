"""Training: pools by budget, data on the device, one step as fast as the hardware, exact resume."""

from egorecovery.training.methods import METHODS
from egorecovery.training.recipe import RECIPES, Augmentation, Batch, Budget, Optimisation, Recipe

__all__ = ["METHODS", "RECIPES", "Augmentation", "Batch", "Budget", "Optimisation", "Recipe"]
