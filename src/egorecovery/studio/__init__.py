"""The studio: local web apps to browse and annotate a store, and to score rollouts blind."""
