"""What the operating system refuses, in words: which file, why, and what helps."""

import errno
import os

HELP = {
    errno.EACCES: "you may not read or write here; choose another folder, or change its permissions",
    errno.EPERM: "you may not read or write here; choose another folder, or change its permissions",
    errno.EROFS: "this file system is read-only; choose another folder",
    errno.ENOSPC: "the disk is full; free space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free space and run the same command again",
    errno.ENOENT: "does not exist; check the path",
    errno.ENOTDIR: "a part of this path is a file, not a folder; check the path",
    errno.EISDIR: "this is a folder, and a file is wanted",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EADDRINUSE: "the port is in use; choose another with --port",
    errno.EMFILE: "too many files are open; raise 'ulimit -n'",
}
NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EADDRINUSE, errno.EMFILE)  # true of whichever file it was


def words_of(error: OSError) -> str:
    """Such as: out/run: you may not read or write here; choose another folder, or change its permissions."""
    said = error.strerror or str(error)
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    if names:
        return f"{' and '.join(names)}: {HELP.get(error.errno or 0, said)}"
    if error.errno not in NAMELESS:
        return said  # a library may name the file in its own words
    advice = HELP[error.errno]
    return advice if said == os.strerror(error.errno) else f"{said}: {advice}"
