"""Checks a file of JSON lines with `ag-ui-validate`. Tells the median of the processor time of a pass, in
seconds, and the first error that it finds."""

import json
import statistics
import sys
import time

from ag_ui_validate import Validator

with open(sys.argv[1], encoding="utf-8") as file:
    lines = file.read().splitlines()


def check():
    """One pass: every line parsed and fed."""
    validator = Validator()
    started = time.process_time()
    for line in lines:
        validator.feed(json.loads(line))
    validator.finalize()
    report = validator.report()
    return time.process_time() - started, report


seconds = []
begun = time.perf_counter()
while not seconds or (len(seconds) < 5 and time.perf_counter() - begun < 4):
    taken, report = check()
    seconds.append(taken)

errors = [d for d in report.diagnostics if str(getattr(d.severity, "value", d.severity)) == "error"]
print(json.dumps({"seconds": statistics.median(seconds), "error": str(errors[0]) if errors else None}))
