"""Checks a file of Server-Sent Events with `ag-ui-validate`, from bytes in pieces as a network brings them. Tells the
median of the processor time of a pass, in seconds; that of a pass over lines that are cut already, each parsed and fed;
and the first error that it finds."""

import asyncio
import json
import statistics
import sys
import time

from ag_ui_validate import Validator
from ag_ui_validate.transport import TransportOptions, validate_body

PIECE = 16 * 1024

with open(sys.argv[1], "rb") as file:
    body = file.read()
lines = [line[len("data: ") :] for line in body.decode().split("\n\n") if line]


async def pieces():
    """The bytes, all there."""
    for at in range(0, len(body), PIECE):
        yield body[at : at + PIECE]


def from_bytes():
    """One pass over the bytes."""
    options = TransportOptions(recorded=True)
    return asyncio.run(validate_body(pieces(), "text/event-stream", options)).report


def fed():
    """One pass over the lines."""
    validator = Validator()
    for line in lines:
        validator.feed(json.loads(line))
    validator.finalize()
    return validator.report()


def median(check):
    """The median seconds of some passes, and the last report."""
    seconds = []
    begun = time.perf_counter()
    while not seconds or (len(seconds) < 5 and time.perf_counter() - begun < 4):
        started = time.process_time()
        report = check()
        seconds.append(time.process_time() - started)
    return statistics.median(seconds), report


seconds, report = median(from_bytes)
errors = [d for d in report.diagnostics if str(getattr(d.severity, "value", d.severity)) == "error"]
print(json.dumps({"seconds": seconds, "fed": median(fed)[0], "error": str(errors[0]) if errors else None}))
