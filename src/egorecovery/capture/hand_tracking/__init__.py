"""Hand tracking for labs without a reconstruction pipeline: MediaPipe as a subprocess in a separate environment."""
