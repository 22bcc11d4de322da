"""One tree for everything that can go wrong with a user's input. Messages say what, where, and what to do."""


class EgoRecoveryError(Exception):
    """Base of all errors that the command line shows as one message, without a traceback."""


class RecipeError(EgoRecoveryError):
    """A setting that makes no sense."""


class EpisodeError(EgoRecoveryError):
    """Arrays that do not form an episode."""


class RecordingError(EgoRecoveryError):
    """A raw recording that cannot be read."""


class CaptureError(EgoRecoveryError):
    """A camera or a robot's stream that cannot be opened, or has failed."""


class AuditError(EgoRecoveryError):
    """A collection log whose times cannot be true."""


class MotionError(EgoRecoveryError):
    """A track from which no motion can be recovered."""


class KinematicsError(EgoRecoveryError):
    """A robot model without the joints or the tool that were named, or vectors that do not fit it."""


class AnnotationError(EgoRecoveryError):
    """A boundary or annotation that does not fit its episode."""


class StaleRevision(AnnotationError):
    """A save that would overwrite an annotation its author has not seen."""


class StoreError(EgoRecoveryError):
    """A store that cannot be opened, read or written."""


class StoreLocked(StoreError):
    """Another writer holds the store."""


class StoreDamaged(StoreError):
    """Bytes on disk are not the bytes that were written."""


class UnsafeFile(StoreDamaged):
    """A link, a pipe, a device or a name that leads elsewhere, where a file of ours should be."""


class EpisodeNotFound(StoreError):
    """No episode of that name."""


class EpisodeExists(StoreError):
    """An episode of that name is already there, with other content."""


class PicturesDiffer(StoreError):
    """An episode whose pictures have another size than those of its task in the store."""


class CheckpointError(EgoRecoveryError):
    """A checkpoint that is missing, damaged or of another recipe."""


class TrainingStopped(EgoRecoveryError):
    """A run that cannot go on: a loss or a gradient is not finite."""


class StudioError(EgoRecoveryError):
    """A local app that cannot start as asked, or a request for what is not there."""


class WireError(EgoRecoveryError):
    """A message that does not follow the serving protocol or its limits."""


class ServingError(EgoRecoveryError):
    """A policy that cannot be served as asked, or an observation that it cannot answer."""


class ServerError(EgoRecoveryError):
    """A policy server that cannot be reached, says no, or answers what no robot may be told."""


class ServerSilent(ServerError):
    """A policy server that did not answer in time."""


class LimitsError(EgoRecoveryError):
    """A file of robot limits that lacks something, or says something that no robot is like."""


class RobotError(EgoRecoveryError):
    """A robot that cannot be started: of another kind than the policy, or not where it may start."""
