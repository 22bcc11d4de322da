"""Hand tracking for labs without a reconstruction pipeline: MediaPipe in an environment of its own, as a subprocess."""
