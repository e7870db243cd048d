"""An AG-UI agent that is a program: run input on standard input, one event a line on standard output.

It counts down from the first number in the last message, keeps the number in its state, and calls a tool at the end. It
needs nothing but Python's standard library. Standard error goes to the server's log.
"""

import json
import re
import sys
import time


def say(event_type, **members):
    """Writes one event. Without the flush it would wait for a full buffer."""
    print(json.dumps({"type": event_type, **members}), flush=True)


def text_of(message):
    """The text of a message, whose content is a string or a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def main():
    run_input = json.load(sys.stdin)
    run_id = run_input["runId"]
    asked = [text_of(m) for m in run_input["messages"] if m["role"] == "user"]
    number = re.search(r"\d+", asked[-1] if asked else "")
    start = min(int(number.group()) if number else 3, 100)
    print(f"counting down from {start}", file=sys.stderr)

    say("RUN_STARTED", threadId=run_input["threadId"], runId=run_id)
    say("STATE_SNAPSHOT", snapshot={"left": start})

    # Ids are the conversation's, so they must not repeat from one run to the next.
    message_id = f"{run_id}-answer"
    say("TEXT_MESSAGE_START", messageId=message_id, role="assistant")
    for left in range(start, 0, -1):
        say("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=f"{left} … ")
        say("STATE_DELTA", delta=[{"op": "replace", "path": "/left", "value": left - 1}])
        time.sleep(0.02)
    say("TEXT_MESSAGE_END", messageId=message_id)

    call_id = f"{run_id}-launch"
    say("TOOL_CALL_START", toolCallId=call_id, toolCallName="launch", parentMessageId=message_id)
    say("TOOL_CALL_ARGS", toolCallId=call_id, delta=json.dumps({"counted": start}))
    say("TOOL_CALL_END", toolCallId=call_id)
    say("TOOL_CALL_RESULT", messageId=f"{call_id}-result", toolCallId=call_id, content="lift-off")
    say("RUN_FINISHED", threadId=run_input["threadId"], runId=run_id, result={"counted": start})


main()
