"""The studio: local web apps to browse and annotate a store, watch rollouts, and score them blind."""
