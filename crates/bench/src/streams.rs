//! The AG-UI streams that are consumed and encoded: generated, the same in every run, and each with what a client must
//! hold in the end.

use serde_json::{Value, json};

/// One stream, whole in memory.
pub struct Stream {
    /// As the report calls it.
    pub name: String,
    /// The events, in order, chunks not expanded.
    pub events: Vec<Value>,
    /// The same as Server-Sent Events, one `data` line an event.
    pub sse: Vec<u8>,
}

impl Stream {
    /// A stream of these events between the start and the end of a run.
    fn of_run(name: impl Into<String>, run: impl IntoIterator<Item = Value>) -> Stream {
        let ids = |kind: &str| json!({"type": kind, "threadId": "thread-1", "runId": "run-1"});
        let mut events = vec![ids("RUN_STARTED")];
        events.extend(run);
        events.push(ids("RUN_FINISHED"));
        Stream::new(name, events)
    }

    /// A stream of exactly these events.
    pub fn new(name: impl Into<String>, events: Vec<Value>) -> Stream {
        let sse = events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes();
        Stream { name: name.into(), events, sse }
    }

    /// One JSON object a line.
    pub fn lines(&self) -> String {
        self.events.iter().map(|event| format!("{event}\n")).collect()
    }
}

/// One message of so many deltas of 80 bytes.
pub fn deltas(count: usize) -> Stream {
    Stream::of_run(format!("{} deltas", thousands(count)), text("message-1", count))
}

/// Messages of two short deltas each, one after the other.
pub fn short_messages(count: usize) -> Stream {
    let message = |number: usize| {
        let id = format!("message-{number}");
        [
            json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": "Certainly, "}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": "that is done."}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": id}),
        ]
    };
    Stream::of_run(format!("{} short messages", thousands(count)), (0..count).flat_map(message))
}

/// One message of so many chunks of 80 bytes, in the compact spelling.
pub fn chunks(count: usize) -> Stream {
    let chunk = |number: usize| json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "message-1", "delta": prose(number)});
    Stream::of_run(format!("{} chunks", thousands(count)), (0..count).map(chunk))
}

/// One tool call whose arguments, a JSON document, come in so many deltas: nearly every one has quotes to escape.
pub fn long_arguments(count: usize) -> Stream {
    let arguments = move |number: usize| {
        let (open, close) = (if number == 0 { "[" } else { "" }, if number + 1 == count { "]" } else { "," });
        let delta =
            format!("{open}{{\"line\":{number},\"text\":\"fn main() {{ println!(\\\"{number}\\\"); }}\"}}{close}");
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "call-1", "delta": delta})
    };
    let opening = [
        json!({"type": "TEXT_MESSAGE_START", "messageId": "message-1", "role": "assistant"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "message-1"}),
        json!({
            "type": "TOOL_CALL_START", "toolCallId": "call-1", "toolCallName": "write",
            "parentMessageId": "message-1",
        }),
    ];
    let closing = [
        json!({"type": "TOOL_CALL_END", "toolCallId": "call-1"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "result-1", "toolCallId": "call-1", "content": "written"}),
    ];
    let events = opening.into_iter().chain((0..count).map(arguments)).chain(closing);
    Stream::of_run(format!("arguments in {} deltas", thousands(count)), events)
}

/// A state of so many entries, and as many deltas that each change one of them.
pub fn big_state(entries: usize) -> Stream {
    let entry = |number: usize| {
        let value = json!({"title": prose(number), "done": false, "tags": ["a", "b"], "position": number});
        (format!("item-{number}"), value)
    };
    let snapshot: serde_json::Map<String, Value> = (0..entries).map(entry).collect();
    let change = |number: usize| {
        let place = number * 7 % entries;
        json!({"type": "STATE_DELTA", "delta": [
            {"op": "replace", "path": format!("/items/item-{place}/done"), "value": true},
            {"op": "add", "path": format!("/items/item-{place}/note"), "value": "changed"},
        ]})
    };
    let first = json!({"type": "STATE_SNAPSHOT", "snapshot": {"items": snapshot}});
    let name = format!("state of {} entries", thousands(entries));
    Stream::of_run(name, std::iter::once(first).chain((0..entries).map(change)))
}

/// A snapshot of so many messages, a fifth as many that are streamed, and a snapshot that restates them all.
pub fn many_messages(count: usize) -> Stream {
    let held = |number: usize| match number % 2 {
        0 => json!({"id": format!("message-{number}"), "role": "user", "content": prose(number)}),
        _ => json!({"id": format!("message-{number}"), "role": "assistant", "content": prose(number)}),
    };
    let added = count / 5;
    let snapshot = |count: usize| {
        let messages: Vec<Value> = (0..count).map(held).collect();
        json!({"type": "MESSAGES_SNAPSHOT", "messages": messages})
    };
    let streamed = (count..count + added).flat_map(|number| {
        let id = format!("message-{number}");
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        [
            json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": role}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": prose(number)}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": id}),
        ]
    });
    let events = std::iter::once(snapshot(count)).chain(streamed).chain([snapshot(count + added)]);
    Stream::of_run(format!("{} messages held", thousands(count)), events)
}

fn text(id: &str, deltas: usize) -> impl Iterator<Item = Value> {
    let start = json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"});
    let end = json!({"type": "TEXT_MESSAGE_END", "messageId": id});
    let content =
        move |number: usize, id: &str| json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": prose(number)});
    let id = id.to_owned();
    std::iter::once(start).chain((0..deltas).map(move |number| content(number, &id))).chain([end])
}

/// Text of 80 bytes. Every eighth ends a line, as a model's does, so that there is something to escape.
fn prose(number: usize) -> String {
    let end = if number.is_multiple_of(8) { "\n" } else { " " };
    format!("{number:>9} words of one model come in pieces of some length that nobody foresaw;{end}")
}

fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{prose, thousands};

    #[test]
    fn a_delta_has_eighty_bytes() {
        for number in [0, 7, 199_999] {
            assert_eq!(prose(number).len(), 80);
        }
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(
            ["7", "10,000", "1,234,567"],
            [thousands(7), thousands(10_000), thousands(1_234_567)].each_ref().map(String::as_str)
        );
    }
}
