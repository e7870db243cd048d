"""Encodes the events of a file of JSON lines with the encoder of `ag-ui-protocol`, as Server-Sent Events. Tells the
median of the processor time of a pass, in seconds."""

import json
import statistics
import sys
import time

from ag_ui.core import Event
from ag_ui.encoder import EventEncoder
from pydantic import TypeAdapter

with open(sys.argv[1], encoding="utf-8") as file:
    adapter = TypeAdapter(Event)
    events = [adapter.validate_json(line) for line in file]

encoder = EventEncoder()
seconds = []
begun = time.perf_counter()
while not seconds or (len(seconds) < 5 and time.perf_counter() - begun < 4):
    started = time.process_time()
    length = sum(len(encoder.encode(event)) for event in events)
    seconds.append(time.process_time() - started)

print(json.dumps({"seconds": statistics.median(seconds), "length": length}))
