"""A real agent framework behind a real AG-UI endpoint, for the tests to run upstream of Runwire.

`POST /` takes a RunAgentInput and answers with AG-UI events over SSE, and so does `POST /asking`, whose agent asks for approval. The model is pydantic-ai's TestModel, which
calls every tool once and then answers in text, so a run is the same each time and needs no network.

The first line on stdout is `listening 127.0.0.1:PORT`, printed when the socket accepts. Logs go to stderr. SIGTERM
ends the process; so does `--lifetime`, so that an agent whose test died does not stay behind.
"""

import argparse
import asyncio
import logging
import socket
import sys

import uvicorn
from ag_ui.core import EventType, StateDeltaEvent, StateSnapshotEvent
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, RunContext, ToolReturn
from pydantic_ai.models.test import TestModel
from pydantic_ai.ui import StateDeps
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class Notebook(BaseModel):
    """The state that agent and client share."""

    notes: list[str] = []


def build_asking_agent() -> Agent[StateDeps[Notebook], str | DeferredToolRequests]:
    """An agent whose one tool runs only when a person has approved the call."""
    agent = Agent(
        TestModel(custom_output_text="That is all."),
        deps_type=StateDeps[Notebook],
        output_type=[str, DeferredToolRequests],
    )

    @agent.tool_plain(requires_approval=True)
    async def delete_notes(city: str) -> str:
        """Deletes the notes about a city."""
        return f"Deleted the notes about {city}."

    return agent


def build_agent(tool_delay: float) -> Agent[StateDeps[Notebook], str]:
    """The agent, whose first tool takes `tool_delay` seconds: the time in which a test can stop the run."""
    agent = Agent(
        TestModel(custom_output_text="It is sunny in Paris, and I have noted it."),
        deps_type=StateDeps[Notebook],
    )

    @agent.tool_plain
    async def current_weather(city: str) -> str:
        """Tells the weather in a city."""
        await asyncio.sleep(tool_delay)
        return f"Sunny in {city}, 21 degrees."

    @agent.tool
    async def remember_note(ctx: RunContext[StateDeps[Notebook]], note: str) -> ToolReturn:
        """Writes a note into the notebook."""
        before = ctx.deps.state.model_copy(deep=True)
        ctx.deps.state.notes.append(note)
        # Both ways to say that state changed, so that a run shows a snapshot and a delta that applies to it.
        return ToolReturn(
            return_value="Noted.",
            metadata=[
                StateSnapshotEvent(type=EventType.STATE_SNAPSHOT, snapshot=before.model_dump()),
                StateDeltaEvent(
                    type=EventType.STATE_DELTA,
                    delta=[{"op": "add", "path": "/notes/-", "value": note}],
                ),
            ],
        )

    return agent


def build_app(agent: Agent[StateDeps[Notebook], str]) -> Starlette:
    """The HTTP application: one run a request, with state of its own; `/asking` is the agent that asks for approval."""

    async def run(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(
            request, agent=agent, deps=StateDeps(Notebook()), include_usage=True
        )

    asking = build_asking_agent()

    async def run_asking(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(
            request, agent=asking, deps=StateDeps(Notebook()), include_usage=True
        )

    return Starlette(routes=[Route("/", run, methods=["POST"]), Route("/asking", run_asking, methods=["POST"])])


class AnnouncedServer(uvicorn.Server):
    """A server that says where it listens once it does."""

    def __init__(self, config: uvicorn.Config, address: str) -> None:
        super().__init__(config)
        self._address = address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            print(f"listening {self._address}", flush=True)


async def serve(port: int, tool_delay: float, lifetime: float) -> None:
    """Serves until SIGTERM, SIGINT or the end of `lifetime` seconds."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        build_app(build_agent(tool_delay)),
        # uvicorn would send its access log to stdout, which belongs to the announcement.
        log_config=None,
        # A stream that is still open must not hold the process back once it was told to end.
        timeout_graceful_shutdown=1,
    )
    server = AnnouncedServer(config, f"127.0.0.1:{listener.getsockname()[1]}")

    async def end_of_life() -> None:
        await asyncio.sleep(lifetime)
        server.should_exit = True

    timer = asyncio.create_task(end_of_life())
    try:
        await server.serve(sockets=[listener])
    finally:
        timer.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description="A pydantic-ai agent over AG-UI, for Runwire's tests.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--tool-delay", type=float, default=0.0, help="seconds that the weather tool takes")
    parser.add_argument("--lifetime", type=float, default=600.0, help="seconds after which the agent ends by itself")
    flags = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    asyncio.run(serve(flags.port, flags.tool_delay, flags.lifetime))


if __name__ == "__main__":
    main()
