"""A FastAPI application that sends one agent's AG-UI events to everybody who asks, encoded by the Python SDK.

It keeps nothing: who comes late has missed what was, and who is cut cannot resume. An event is encoded once, for all
readers, which is kinder to it than the usual way of once for each. Hears words and says JSON; ends when its input does.
"""

import asyncio
import json
import socket
import sys
import time

import uvicorn
from ag_ui.core import EventType, TextMessageContentEvent
from ag_ui.encoder import EventEncoder
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

PADDING = "x" * 110
app = FastAPI()
encoder = EventEncoder()
readers: list[asyncio.Queue[str | None]] = []


def event(text: str) -> str:
    return encoder.encode(
        TextMessageContentEvent(
            type=EventType.TEXT_MESSAGE_CONTENT, message_id="message-1", delta=text + PADDING
        )
    )


@app.get("/live")
async def live() -> StreamingResponse:
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    queue.put_nowait(event("hello"))
    readers.append(queue)

    async def events():
        while (piece := await queue.get()) is not None:
            yield piece

    return StreamingResponse(events(), media_type="text/event-stream")


def tell(piece: str | None) -> None:
    for queue in readers:
        queue.put_nowait(piece)


async def words(server: uvicorn.Server) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, *numbers = line.split()
        if word == "live":
            count, pace_ms = (int(n) for n in numbers)
            for _ in range(count):
                await asyncio.sleep(pace_ms / 1000)
                tell(event(f"@d{time.monotonic_ns()}@"))
            tell(None)
            readers.clear()
    server.should_exit = True


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    port = listener.getsockname()[1]
    print(json.dumps({"address": f"127.0.0.1:{port}", "sse": "/live", "ws": ""}), flush=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(sockets=[listener]))
        group.create_task(words(server))


asyncio.run(main())
