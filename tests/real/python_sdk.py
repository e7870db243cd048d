"""Reads AG-UI events, one JSON document a line, with the released Python SDK, and writes them with its encoder.

Prints one JSON document: `read`, for each line `{class, expected, error}`, and `encoded`, what the encoder wrote of all that
could be read. Exit 1 when it could not do its job.
"""

import argparse
import json
import sys

from ag_ui.core import events
from ag_ui.core import Event
from ag_ui.encoder import EventEncoder
from pydantic import TypeAdapter, ValidationError


def class_of(event_type: str) -> str:
    """The SDK's name for the class of an event type: TEXT_MESSAGE_START is TextMessageStartEvent."""
    return "".join(word.capitalize() for word in event_type.split("_")) + "Event"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", required=True)
    flags = parser.parse_args()
    adapter = TypeAdapter(Event)
    encoder = EventEncoder()
    read, encoded = [], []
    with open(flags.events, encoding="utf-8") as lines:
        for line in lines:
            expected = class_of(json.loads(line)["type"])
            if not hasattr(events, expected):
                sys.exit(f"the SDK has no class {expected}")
            try:
                event = adapter.validate_json(line)
            except ValidationError as error:
                read.append({"class": None, "expected": expected, "error": str(error)})
                continue
            read.append({"class": type(event).__name__, "expected": expected, "error": None})
            encoded.append(encoder.encode(event))
    json.dump({"read": read, "encoded": "".join(encoded)}, sys.stdout)


if __name__ == "__main__":
    main()
