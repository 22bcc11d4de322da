"""Logs of one JSON object per line; in a terminal, of one line for people."""

import json
import logging
from datetime import UTC, datetime
from typing import Any, TextIO

from egorecovery.storage.foreign_text import inert

logger = logging.getLogger("egorecovery.serving")


class JsonFormatter(logging.Formatter):
    """Formats time, level, event, the event's fields and, if any, a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TerminalFormatter(logging.Formatter):
    """Such as: 18:45:34 connected, peer 127.0.0.1:53172, clients 1."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        fields = getattr(record, "fields", {})
        # What a server announces for programs, its terminal shows above already.
        details = [] if record.getMessage() == "listening" else [f"{name} {value}" for name, value in fields.items()]
        line = inert(", ".join([f"{at} {record.getMessage()}", *details]))
        return f"{line}\n{inert(self.formatException(record.exc_info))}" if record.exc_info else line


def log(event: str, level: int = logging.INFO, exc_info: bool = False, **fields: Any) -> None:
    logger.log(level, event, extra={"fields": fields}, exc_info=exc_info)


def write_json_logs(stream: TextIO, level: int = logging.INFO) -> None:
    """Sends this package's log and warnings of the WebSocket library to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TerminalFormatter() if stream.isatty() else JsonFormatter())
    for name, least in (("egorecovery.serving", level), ("websockets", logging.WARNING)):
        named = logging.getLogger(name)
        named.handlers, named.propagate = [handler], False
        named.setLevel(least)
