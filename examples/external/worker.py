"""Executes the runs of an agent with `driver = "external"`: lists those that are queued, claims one, pushes its events.

Usage: worker.py SERVER AGENT [RUNS]. With RUNS it exits after so many runs. Where the server wants tokens, RUNWIRE_TOKEN
is one with `push = true`. It needs nothing but Python's standard library.

A worker on a queue system does the same without the list: whoever creates the run puts its id into the queue.
"""

import http.client
import json
import os
import sys
import time
import urllib.parse


class Server:
    def __init__(self, address):
        self.host = urllib.parse.urlsplit(address).netloc

    def ask(self, method, path, body=None, content_type="application/json"):
        """Sends a request; a generator as the body is streamed. Gives the status and the document."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        headers = {"Content-Type": content_type} if body is not None else {}
        if token := os.environ.get("RUNWIRE_TOKEN"):
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, json.load(response)
        finally:
            connection.close()


def events(run_input):
    """The agent: AG-UI events for an input, as they come about."""
    ids = {"threadId": run_input["threadId"], "runId": run_input["runId"]}
    asked = [m["content"] for m in run_input["messages"] if m["role"] == "user" and isinstance(m["content"], str)]
    message = f"{run_input['runId']}-answer"
    yield {"type": "RUN_STARTED", **ids}
    yield {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"}
    for word in (asked[-1] if asked else "nothing").split():
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": word.upper() + "! "}
    yield {"type": "TEXT_MESSAGE_END", "messageId": message}
    yield {"type": "RUN_FINISHED", **ids}


def execute(server, claim):
    """Pushes the run's events until the server has all of them, and says how it came out."""
    run, epoch = claim["run_id"], claim["epoch"]
    # Kept until they are stored. A long run keeps those that were not acknowledged, and pushes in several bodies.
    lines = [json.dumps({"n": n, "event": event}) + "\n" for n, event in enumerate(events(claim["input"]), 1)]
    through = claim["through"]
    while True:
        body = (line.encode() for line in lines[through:])
        try:
            status, answer = server.ask(
                "POST", f"/v2/runs/{run}/frames?epoch={epoch}", body, "application/x-ndjson")
        except OSError:
            # The connection was lost: how far the server came is in the claim.
            time.sleep(0.5)
            status, answer = server.ask("POST", f"/v2/runs/{run}/claim?epoch={epoch}")
            if status == 200:
                through = answer["through"]
                continue
        if status != 200:
            return f"refused: {answer['detail']}"
        if answer["cancelling"] and not answer["ended"]:
            error = {"type": "RUN_ERROR", "message": "stopped"}
            through = answer["through"]
            lines = lines[:through] + [json.dumps({"n": through + 1, "event": error}) + "\n"]
            continue
        return answer.get("status", "not ended")


def main():
    server, agent = Server(sys.argv[1]), sys.argv[2]
    left = int(sys.argv[3]) if len(sys.argv) > 3 else None
    query = urllib.parse.urlencode({"agent_id": agent, "status": "queued,suspended"})
    while left is None or left > 0:
        _, page = server.ask("GET", f"/v2/runs?{query}")
        for run in reversed(page["runs"]):
            # Another worker may be quicker, and a suspended run may still wait for its answer: both are 409.
            status, claim = server.ask("POST", f"/v2/runs/{run['run_id']}/claim")
            if status == 200:
                print(run["run_id"], execute(server, claim), flush=True)
                left = None if left is None else left - 1
                if left == 0:
                    return
        time.sleep(0.1)


main()
