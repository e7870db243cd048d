//! A further attempt uses the ids of the one that was given up: a client takes the stream, and holds at the end what the
//! last attempt has said, whole, whatever the things in it are called.

#![allow(clippy::unwrap_used)]

mod log;
mod walk;

use log::{Log, at, event, input, run_start};
use proptest::prelude::*;
use runwire_agui::{Event, Message, Reducer, RunAgentInput};
use runwire_bridge::{
    Completion, ExchangeEnd, Failure, Ingest, LogState, OwnNames, Peer, Projection, Recorder, Suspension, Upstream,
};
use runwire_frame::{ErrorCode, SegmentStatus, SuspendKind};
use serde_json::{Map, Value, json};
use walk::{Close, Walk, streams, walk};

fn abandoned() -> Failure {
    Failure { segments: SegmentStatus::Abandoned, ..Failure::new(ErrorCode::ModelError, "overloaded") }
}

/// A run that is tried again and again, and the client that reads it.
struct Bed {
    log: Log,
    recorder: Option<Recorder>,
    state: Option<LogState>,
    ingest: Ingest,
    input: RunAgentInput,
    /// What the client began with.
    asked: RunAgentInput,
    /// Whether the log says what the run was asked.
    echoed: bool,
}

impl Bed {
    fn new(input: RunAgentInput, echoed: bool) -> Bed {
        let mut bed = Bed {
            log: Log::default(),
            recorder: None,
            state: None,
            ingest: Ingest::new(&input),
            asked: input.clone(),
            input,
            echoed,
        };
        bed.recorder = Some(Recorder::start(LogState::new("run_1"), at(0), run_start(bed.members())));
        bed
    }

    fn members(&self) -> Option<Map<String, Value>> {
        let mut members = json!({ "runId": self.input.run_id });
        if self.echoed {
            members["input"] = serde_json::to_value(&self.input).unwrap();
        }
        members.as_object().cloned()
    }

    fn says(&mut self, events: &[Event]) {
        for event in events {
            self.ingest.record(self.recorder.as_mut().unwrap(), at(1), event);
        }
    }

    fn says_json(&mut self, events: &[Value]) {
        self.says(&events.iter().cloned().map(event).collect::<Vec<_>>());
    }

    /// The attempt is given up, and the next one begins.
    fn tries_again(&mut self) {
        let (recorded, state) = self.recorder.take().unwrap().retry(at(2), abandoned());
        self.log.append(recorded);
        // What waited for its result does so for the next attempt too.
        let recorder = Recorder::start(state, at(3), run_start(self.members()));
        self.ingest = Ingest::resumed(&self.input, &recorder);
        self.recorder = Some(recorder);
    }

    fn ends(&mut self, end: ExchangeEnd) {
        let recorder = self.recorder.take().unwrap();
        match end {
            ExchangeEnd::Completed(completion) => self.log.append(recorder.complete(at(4), completion)),
            ExchangeEnd::Cancelled { usage, agui } => self.log.append(recorder.cancel(at(4), &usage, agui)),
            ExchangeEnd::Failed(failure) => self.log.append(recorder.fail(at(4), failure)),
            ExchangeEnd::Suspended(suspension) => {
                let (recorded, state) = recorder.suspend(at(4), suspension);
                self.log.append(recorded);
                self.state = Some(state);
            }
        }
    }

    fn completes(&mut self, agui: Value) {
        self.ends(Completion { agui: agui.as_object().cloned(), ..Completion::default() }.into());
    }

    fn asks(&mut self, interrupts: Value) {
        self.ends(ExchangeEnd::Suspended(Suspension {
            kind: SuspendKind::Approval,
            contract: Map::from_iter([("interrupts".to_owned(), interrupts)]),
            prompt: None,
            deadline: None,
            usage: Vec::new(),
            agui: None,
        }));
    }

    /// The next exchange begins, with what the client holds.
    fn goes_on(&mut self) {
        self.input = RunAgentInput { messages: self.held(), run_id: "exchange-2".into(), ..self.input.clone() };
        let recorder = Recorder::resume(self.state.take().unwrap(), at(5), None, self.members());
        self.ingest = Ingest::resumed(&self.input, &recorder);
        self.recorder = Some(recorder);
    }

    /// The log with what was not handed on yet.
    fn written(&mut self) -> &Log {
        if let Some(recorder) = &mut self.recorder {
            self.log.append(recorder.take());
        }
        self.log.assert_legal();
        &self.log
    }

    fn told(&mut self) -> Vec<Event> {
        self.written().project()
    }

    fn told_json(&mut self) -> Vec<Value> {
        self.told().iter().map(Event::to_value).collect()
    }

    /// The messages that a client holds which has followed the run from its beginning.
    fn held(&mut self) -> Vec<Message> {
        let mut reducer = Reducer::from_input(&self.asked);
        for (index, event) in self.told().into_iter().enumerate() {
            reducer.apply(event, index);
        }
        reducer.messages().cloned().collect()
    }

    fn own_names(&mut self) -> OwnNames {
        let mut projection = Projection::new(Peer::Current);
        let log = self.written().clone();
        for frame in &log.frames {
            let payload = Projection::needs_payload(frame).map(|id| {
                let payload = log.payloads.iter().find(|payload| payload.segment_id == *id).unwrap();
                runwire_bridge::StoredPayload {
                    content_type: payload.content_type.to_owned(),
                    bytes: payload.bytes.clone(),
                }
            });
            projection.push(frame, payload.as_ref()).unwrap();
        }
        projection.own_names()
    }

    /// The same messages as the agent knows them.
    fn held_as_own(&mut self) -> Vec<Message> {
        let mut input = RunAgentInput { messages: self.held(), ..self.input.clone() };
        self.own_names().restore(&mut input);
        input.messages
    }
}

impl Bed {
    /// What was abandoned is of no interest where a name tells what it is called since.
    fn held_as_own_without_what_was_left_behind(&mut self) -> Vec<Message> {
        let names = self.own_names();
        let mut input = RunAgentInput { messages: self.held(), ..self.input.clone() };
        let members = names.members().unwrap_or_default();
        let since: Vec<(String, String)> = members["reasoning"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(told, own)| (told.clone(), own.as_str().unwrap().to_owned()))
            .collect();
        let held: Vec<String> = input.messages.iter().map(|message| message.id().to_owned()).collect();
        input.messages.retain(|message| {
            let newer = |(told, own): &(String, String)| own == message.id() && held.contains(told);
            !matches!(message, Message::Reasoning(_) | Message::Activity(_)) || !since.iter().any(newer)
        });
        names.restore(&mut input);
        input.messages
    }
}

/// The ids under which events of one type came, in order.
fn ids<'a>(told: &'a [Value], event_type: &str, key: &str) -> Vec<&'a str> {
    told.iter().filter(|e| e["type"] == event_type).map(|e| e[key].as_str().unwrap_or("none")).collect()
}

fn scout_speaks(said: &str) -> Vec<Value> {
    vec![
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "a"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": said}),
    ]
}

fn scout_is_done() -> Vec<Value> {
    vec![
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m", "subagentRunId": "a"}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m",
            "subagentRunId": "a"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
        json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c",
            "encryptedValue": "opaque", "subagentRunId": "a"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "b", "name": "helper", "parentSubagentRunId": "a",
            "parentToolCallId": "c"}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "b"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "res", "toolCallId": "c", "content": "ok",
            "subagentRunId": "a"}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a"}),
    ]
}

/// events/subagents, "Ownership": a message is its opener's. The subagent of the further attempt has another name, so what
/// it opens under a repeated id would be refused, and the whole answer lost.
#[test]
fn what_a_repeated_subagent_says_and_calls_is_told_whole_under_names_of_its_own() {
    for first in [scout_speaks("first"), [scout_speaks("first"), scout_is_done()].concat()] {
        let mut bed = Bed::new(input("exchange-1"), true);
        bed.says_json(&first);
        bed.tries_again();
        bed.says_json(&scout_speaks("second"));
        bed.says_json(&scout_is_done());
        bed.completes(json!({}));
        let told = bed.told_json();
        let second = told.iter().position(|e| e["name"] == "runwire.attempt").unwrap();
        let told = &told[second + 1..];
        assert_eq!(ids(told, "TEXT_MESSAGE_START", "messageId"), ["m.2"]);
        assert_eq!(ids(told, "TEXT_MESSAGE_CONTENT", "messageId"), ["m.2"]);
        assert_eq!(ids(told, "TEXT_MESSAGE_END", "messageId"), ["m.2"]);
        let call = told.iter().find(|e| e["type"] == "TOOL_CALL_START").unwrap();
        assert_eq!(call["parentMessageId"], "m.2");
        // A call that the abandoned attempt did not come to has its own id still.
        let name = if first.len() > 3 { "c.2" } else { "c" };
        for event_type in ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"] {
            assert_eq!(ids(told, event_type, "toolCallId"), [name]);
        }
        assert_eq!(ids(told, "REASONING_ENCRYPTED_VALUE", "entityId"), [name]);
        assert_eq!(ids(told, "SUBAGENT_STARTED", "parentToolCallId"), ["none", name]);
        let of_a: Vec<&Value> = told.iter().map(|e| &e["subagentRunId"]).filter(|id| id.is_string()).collect();
        assert!(of_a.iter().all(|id| *id == "a.2" || id.as_str().unwrap().starts_with('b')), "{of_a:?}");
        let held = serde_json::to_value(bed.held()).unwrap();
        assert_eq!(held[0]["content"], "second");
        assert_eq!(held[0]["subagentRunId"], "a.2");
        assert_eq!(held[0]["toolCalls"][0]["function"]["arguments"], "{}");
        assert_eq!(held[0]["toolCalls"][0]["encryptedValue"], "opaque");
        assert_eq!((&held[1]["toolCallId"], &held[1]["content"]), (&json!(name), &json!("ok")));
    }
}

/// A tool message goes by the id that its call is told under, and an answer to the question goes to the call that was asked
/// about: both ways, and in the exchange that follows.
#[test]
fn a_question_about_a_renamed_call_names_it_as_told_and_what_goes_on_keeps_its_name() {
    let mut bed = Bed::new(input("exchange-1"), true);
    bed.says_json(&scout_speaks("first"));
    bed.says_json(&[json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "subagentRunId": "a"})]);
    bed.tries_again();
    bed.says_json(&scout_speaks("second"));
    bed.says_json(&[
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "subagentRunId": "a"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [
            {"id": "m", "role": "assistant", "content": "restated", "subagentRunId": "a"},
            {"id": "c", "role": "assistant", "subagentRunId": "a",
                "toolCalls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        ]}),
    ]);
    bed.asks(json!([{"id": "i", "reason": "approval", "toolCallId": "c", "subagentRunId": "a"}]));
    let told = bed.told_json();
    let interrupt = &told.last().unwrap()["outcome"]["interrupts"][0];
    assert_eq!((&interrupt["toolCallId"], &interrupt["subagentRunId"]), (&json!("c.2"), &json!("a.2")));
    let held = serde_json::to_value(bed.held()).unwrap();
    assert_eq!((&held[0]["id"], &held[0]["content"]), (&json!("m.2"), &json!("restated")));
    assert_eq!((&held[1]["id"], &held[1]["toolCalls"][0]["id"]), (&json!("c.2"), &json!("c.2")));
    // The agent is given its own ids back.
    let own = serde_json::to_value(bed.held_as_own()).unwrap();
    assert_eq!((&own[0]["id"], &own[0]["subagentRunId"]), (&json!("m"), &json!("a")));
    assert_eq!((&own[1]["id"], &own[1]["toolCalls"][0]["id"]), (&json!("c"), &json!("c")));

    bed.goes_on();
    bed.says_json(&[
        json!({"type": "TOOL_CALL_RESULT", "messageId": "res", "toolCallId": "c", "content": "ok",
            "subagentRunId": "a"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m", "subagentRunId": "a"}),
    ]);
    bed.completes(json!({}));
    let told = bed.told_json();
    let second = told.iter().rposition(|e| e["type"] == "RUN_STARTED").unwrap();
    assert_eq!(ids(&told[second..], "SUBAGENT_STARTED", "subagentRunId"), ["a.2"], "the invocation goes on");
    assert_eq!(ids(&told[second..], "TEXT_MESSAGE_START", "messageId"), ["m.2"]);
    assert_eq!(ids(&told[second..], "TOOL_CALL_RESULT", "toolCallId"), ["c.2"]);
    assert_eq!(serde_json::to_value(bed.held_as_own()).unwrap()[2]["toolCallId"], "c");
}

#[test]
fn an_exchange_that_is_tried_again_after_a_question_names_things_anew() {
    let mut bed = Bed::new(input("exchange-1"), true);
    bed.says_json(&scout_speaks("first"));
    bed.tries_again();
    bed.says_json(&scout_speaks("second"));
    bed.says_json(&scout_is_done());
    bed.asks(json!([{"id": "i", "reason": "approval"}]));
    bed.goes_on();
    let more = |said: &str| {
        [
            json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "n", "subagentRunId": "a"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "n", "delta": said, "subagentRunId": "a"}),
        ]
    };
    bed.says_json(&more("third"));
    bed.tries_again();
    bed.says_json(&more("fourth"));
    bed.says_json(&[
        json!({"type": "TEXT_MESSAGE_END", "messageId": "n"}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a"}),
    ]);
    bed.completes(json!({}));
    let told = bed.told_json();
    assert_eq!(ids(&told, "SUBAGENT_STARTED", "subagentRunId")[..2], ["a", "a.2"]);
    let names = ids(&told, "TEXT_MESSAGE_START", "messageId");
    assert_eq!(names, ["m", "m.2", "n", "n.3"]);
    let held = serde_json::to_value(bed.held()).unwrap();
    let said: Vec<&Value> = held.as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(said, [&json!("second"), &json!("ok"), &json!("fourth")]);
}

/// events/tool-calls, "Frontend tools": what a client derives from the stream must not be that a call was answered which was
/// answered in an attempt that was given up.
#[test]
fn a_call_that_an_abandoned_attempt_answered_is_another_one_and_can_be_left_to_the_application() {
    let call = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
    ];
    let mut bed = Bed::new(input("exchange-1"), true);
    bed.says_json(&call);
    bed.says_json(&[json!({"type": "TOOL_CALL_RESULT", "messageId": "r", "toolCallId": "c", "content": "ok"})]);
    bed.tries_again();
    bed.says_json(&call);
    bed.completes(json!({"outcome": {"type": "success", "pendingToolCallIds": ["c"]}}));
    let told = bed.told_json();
    assert_eq!(told.last().unwrap()["outcome"]["pendingToolCallIds"], json!(["c.2"]));
    assert_eq!(serde_json::to_value(bed.held()).unwrap()[0]["toolCalls"][0]["id"], "c.2");
}

/// What the abandoned attempt left open comes again under its id, so the list is the one that AG-UI asks for.
#[test]
fn a_pending_call_that_is_made_again_under_its_id_is_listed() {
    let call = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
    ];
    let mut bed = Bed::new(input("exchange-1"), true);
    bed.says_json(&call);
    bed.tries_again();
    bed.says_json(&call);
    bed.completes(json!({"outcome": {"type": "success", "pendingToolCallIds": ["c"]}}));
    let told = bed.told_json();
    assert_eq!(told.last().unwrap()["outcome"]["pendingToolCallIds"], json!(["c"]));
}

/// Without the input there is nothing to restate, so a client holds what the abandoned attempt said, and what is new must
/// not be added to it.
#[test]
fn where_nothing_is_restated_nothing_is_added_to_what_was_abandoned() {
    let said = |text: &str| {
        [
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": text}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "m"}),
        ]
    };
    for (echoed, expected) in [(true, vec![("m", "second")]), (false, vec![("m", "first"), ("m.2", "second")])] {
        let mut bed = Bed::new(input("exchange-1"), echoed);
        bed.says_json(&said("first"));
        bed.tries_again();
        bed.says_json(&said("second"));
        bed.completes(json!({}));
        let held = serde_json::to_value(bed.held()).unwrap();
        let held: Vec<_> = held
            .as_array()
            .unwrap()
            .iter()
            .map(|m| (m["id"].as_str().unwrap(), m["content"].as_str().unwrap()))
            .collect();
        assert_eq!(held, expected);
        // The agent is given what there is: where it would know two things by one id, they keep their names.
        assert_eq!(serde_json::to_value(bed.held_as_own()).unwrap(), serde_json::to_value(bed.held()).unwrap());
    }
}

/// An agent may call every answer the same, and nothing of a conversation is to be lost for that.
#[test]
fn what_an_agent_would_call_the_same_keeps_the_name_that_it_was_told_under() {
    let mut bed = Bed::new(input("exchange-1"), true);
    bed.says_json(&scout_speaks("first"));
    bed.tries_again();
    bed.says_json(&scout_speaks("second"));
    bed.says_json(&scout_is_done());
    bed.completes(json!({}));
    let names = bed.own_names();
    let message = |id: &str| json!({"id": id, "role": "assistant", "content": id, "subagentRunId": "a.2"});
    let restored = |messages: Value| {
        let mut input = RunAgentInput { messages: serde_json::from_value(messages).unwrap(), ..input("exchange-2") };
        names.restore(&mut input);
        input.messages.iter().map(|message| message.id().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(restored(json!([message("m"), message("m.2")])), ["m", "m.2"]);
    assert_eq!(restored(json!([message("m.2"), message("n.2")])), ["m", "n.2"]);
}

/// A tool's result for the application comes with the next run of the conversation, and the agent may restate it by its own
/// ids: to the client they are what they were.
#[test]
fn a_run_that_follows_in_the_conversation_goes_on_with_its_names() {
    let mut bed = Bed::new(input("exchange-1"), true);
    bed.says_json(&scout_speaks("first"));
    bed.tries_again();
    bed.says_json(&scout_speaks("second"));
    bed.says_json(&scout_is_done()[..4]);
    bed.says_json(&[json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a"})]);
    bed.completes(json!({}));
    let (held, names) = (bed.held(), bed.own_names());

    let mut asked = RunAgentInput { messages: held.clone(), ..input("exchange-2") };
    assert!(OwnNames::may_concern(&asked));
    let mut own = asked.clone();
    let told_names = names.restore(&mut own).members().unwrap();
    assert_eq!(told_names, json!({"messages": {"m.2": "m"}, "subagents": {"a.2": "a"}}));
    assert!(!OwnNames::may_concern(&own));
    asked.messages.push(serde_json::from_value(json!({"id": "u", "role": "user", "content": "And?"})).unwrap());

    let mut next = Bed::new(asked.clone(), true);
    let mut members = next.members().unwrap();
    members.insert("toldNames".into(), told_names);
    next.recorder = Some(Recorder::start(LogState::new("run_2"), at(0), run_start(Some(members))));
    next.says_json(&[json!({"type": "MESSAGES_SNAPSHOT", "messages": own.messages})]);
    next.says_json(&scout_is_done()[7..8]);
    next.says_json(&[
        json!({"type": "TEXT_MESSAGE_START", "messageId": "n"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "n"}),
    ]);
    next.completes(json!({}));
    let told = next.told_json();
    assert_eq!(told[0]["input"], serde_json::to_value(&asked).unwrap());
    assert_eq!(told[1]["messages"], serde_json::to_value(&held).unwrap());
    assert_eq!((&told[2]["toolCallId"], &told[2]["subagentRunId"]), (&json!("c"), &json!("a.2")));
}

/// events/subagents, "Lifecycle": an announcement comes before anything that is attributed to the invocation.
#[test]
fn a_subagent_that_the_abandoned_attempt_did_not_announce_is_announced_under_another_name() {
    let mut bed = Bed::new(input("exchange-1"), true);
    bed.says_json(&[json!({"type": "CUSTOM", "name": "n", "value": 1, "subagentRunId": "a"})]);
    bed.tries_again();
    bed.says_json(&scout_speaks("second"));
    bed.says_json(&scout_is_done());
    bed.completes(json!({}));
    assert_eq!(ids(&bed.told_json(), "SUBAGENT_STARTED", "subagentRunId"), ["a.2", "b"]);
}

/// An agent may go on with a message of the conversation ("A closed message is closed, not sealed"). It is its owner's, which
/// has another name in a further attempt.
#[test]
fn what_the_conversation_holds_goes_on_as_it_is_there() {
    let mut asked = input("exchange-1");
    asked.messages = vec![
        serde_json::from_value(json!({"id": "m", "role": "assistant", "content": "Hel", "subagentRunId": "a"}))
            .unwrap(),
    ];
    let goes_on = |more: &str| {
        [
            json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "a"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": more, "subagentRunId": "a"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "m", "subagentRunId": "a"}),
            json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m",
                "subagentRunId": "a"}),
            json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": more, "subagentRunId": "a"}),
            json!({"type": "TOOL_CALL_END", "toolCallId": "c", "subagentRunId": "a"}),
            json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a"}),
        ]
    };
    let mut bed = Bed::new(asked, true);
    bed.says_json(&goes_on("p!"));
    bed.tries_again();
    bed.says_json(&goes_on("lo"));
    bed.completes(json!({}));
    let held = serde_json::to_value(bed.held()).unwrap();
    assert_eq!(held.as_array().unwrap().len(), 1, "{held:#}");
    assert_eq!((&held[0]["id"], &held[0]["content"]), (&json!("m"), &json!("Hello")));
    assert_eq!(held[0]["toolCalls"][0]["function"]["arguments"], "lo");
}

/// An agent's own id can look like a name that was given.
#[test]
fn an_id_that_is_a_name_which_was_given_gets_another_one() {
    let mut bed = Bed::new(input("exchange-1"), true);
    bed.says_json(&scout_speaks("first"));
    bed.tries_again();
    bed.says_json(&scout_speaks("second"));
    bed.says_json(&[
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a.2", "name": "another"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m.2", "subagentRunId": "a.2"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m.2"}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a.2"}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a"}),
    ]);
    bed.completes(json!({}));
    let told = bed.told_json();
    assert_eq!(ids(&told, "SUBAGENT_STARTED", "subagentRunId"), ["a", "a.2", "a.2.2"]);
    assert_eq!(ids(&told, "TEXT_MESSAGE_START", "messageId"), ["m", "m.2", "m.2.2"]);
    let own: Vec<String> = bed.held_as_own().iter().map(|message| message.id().to_owned()).collect();
    assert_eq!(own, ["m", "m.2"]);
}

/// What is attempted in one exchange: walks that were cut off, and the one that came to its end. They all begin with the same
/// ids.
fn attempts(closes: Vec<Close>) -> impl Strategy<Value = (Vec<(Walk, usize)>, Walk)> {
    let cut_off = (walk(vec![Close::Plain]), 0usize..40);
    (proptest::collection::vec(cut_off, 0..3), walk(closes))
}

/// What the upstream agent said in an exchange, without its beginning, and how that ended.
fn content(stream: &[Event], input: RunAgentInput) -> (Vec<Event>, ExchangeEnd) {
    let mut upstream = Upstream::new(input);
    let mut content = Vec::new();
    for event in stream {
        if let runwire_bridge::UpstreamStep::Record(event) = upstream.push(event.clone()) {
            content.push(*event);
        }
    }
    (content, upstream.finish())
}

/// Executes an exchange, and says what the attempt said that counts.
fn execute(bed: &mut Bed, before: &[Walk], (cut_off, last): &(Vec<(Walk, usize)>, Walk)) -> Vec<Event> {
    let stream = |walk: &Walk| {
        let walks: Vec<Walk> = before.iter().chain([walk]).cloned().collect();
        let (input, events) = streams(&walks).pop().unwrap();
        content(&events, input)
    };
    for (walk, length) in cut_off {
        let (said, _) = stream(walk);
        bed.says(&said[..said.len().min(*length)]);
        bed.tries_again();
    }
    let (said, end) = stream(last);
    bed.says(&said);
    bed.ends(end);
    said
}

fn as_json(messages: &[Message]) -> Vec<Value> {
    messages.iter().map(|message| serde_json::to_value(message).unwrap()).collect()
}

/// Reasoning and activities apart from what is restated.
fn apart(messages: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    messages.into_iter().partition(|message| message["role"] == "reasoning" || message["role"] == "activity")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_client_holds_what_the_last_attempts_said_and_takes_every_event(
        first in attempts(vec![Close::Interrupt]),
        second in attempts(vec![Close::Plain, Close::Success, Close::Cancelled, Close::Error]),
        echoed in any::<bool>(),
    ) {
        let asked = streams(std::slice::from_ref(&first.1)).pop().unwrap().0;
        let mut direct = Reducer::from_input(&asked);
        let mut bed = Bed::new(asked, echoed);
        let said = execute(&mut bed, &[], &first);
        bed.goes_on();
        let said: Vec<Event> = said.into_iter().chain(execute(&mut bed, std::slice::from_ref(&first.1), &second)).collect();
        for (index, event) in said.into_iter().enumerate() {
            direct.apply(event, index);
        }
        // That a client takes each event, and none is left out, is looked at wherever the log is read.
        let held = as_json(&bed.held_as_own_without_what_was_left_behind());
        if echoed {
            let expected = as_json(&direct.messages().cloned().collect::<Vec<_>>());
            let (thoughts, messages) = apart(expected);
            let (held_thoughts, held_messages) = apart(held);
            let dump = bed.written().dump();
            prop_assert_eq!(held_messages, messages, "{}", dump);
            // A client keeps reasoning and activities of what was abandoned, in their places.
            for thought in thoughts {
                prop_assert!(held_thoughts.contains(&thought), "{thought} is not among {held_thoughts:?}\n{dump}");
            }
        }
    }
}
