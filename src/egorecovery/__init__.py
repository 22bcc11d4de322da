"""EgoRecovery: teach a bimanual robot to recover from failure with cheap egocentric human clips."""

__version__ = "0.2.0"
