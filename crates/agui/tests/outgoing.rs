//! What a client sends, and what it refuses to send (basic/run-input; basic/processing, "Outgoing material";
//! basic/versioning; patterns/interrupt-resume, "Resuming"; events/tool-calls, "Frontend tools"; events/activity).
#![allow(clippy::unwrap_used)]

use runwire_agui::{
    AgentVersion, Consumer, ConsumerOptions, Event, Interrupt, Outgoing, OutgoingError, OutgoingRule, Pending,
    PreparedInput, RunAgentInput, RunFinished, RunFinishedOutcome, RunStarted, ToolCallEnd, ToolCallStart, WarningRule,
};
use serde_json::{Value, json};

/// 29 November 2026, 21:18 UTC.
const NOW: i64 = 1_795_987_080_000;

fn bare() -> Value {
    json!({ "threadId": "t", "runId": "r2", "messages": [{ "id": "u", "role": "user", "content": "hi" }] })
}

/// The bare input with these members set.
fn with(members: Value) -> Value {
    let mut input = bare();
    for (name, value) in members.as_object().unwrap() {
        input[name] = value.clone();
    }
    input
}

fn prepared(input: Value) -> PreparedInput {
    Outgoing::default().prepare(input).unwrap()
}

fn sent(prepared: &PreparedInput) -> Value {
    serde_json::to_value(&prepared.input).unwrap()
}

/// The rules and places of what was warned of.
fn warned(prepared: &PreparedInput) -> Vec<(OutgoingRule, &str)> {
    prepared.warnings.iter().map(|warning| (warning.rule, warning.path.as_deref().unwrap_or_default())).collect()
}

fn for_agent(version: &str, input: Value) -> PreparedInput {
    Outgoing { agent: version.parse().unwrap(), ..Outgoing::default() }.prepare(input).unwrap()
}

/// A thread whose last run, `r1`, ended with these interrupts.
fn interrupted(interrupts: Vec<Interrupt>) -> Pending {
    let mut pending = Pending::new();
    pending.apply(&Event::RunStarted(RunStarted::new("t", "r1")));
    pending.apply(&finished(Some(RunFinishedOutcome::Interrupt { interrupts })));
    pending
}

fn finished(outcome: Option<RunFinishedOutcome>) -> Event {
    Event::RunFinished(RunFinished { outcome, ..RunFinished::new("t", "r1") })
}

fn interrupt(id: &str, expires_at: Option<&str>) -> Interrupt {
    Interrupt { expires_at: expires_at.map(str::to_owned), ..Interrupt::new(id, "confirmation") }
}

fn entry(id: &str, status: &str) -> Value {
    json!({ "interruptId": id, "status": status })
}

fn check(pending: &Pending, input: Value) -> Result<PreparedInput, OutgoingError> {
    Outgoing { pending: Some(pending), now_unix_millis: NOW, ..Outgoing::default() }.prepare(input)
}

// basic/run-input, "protocolVersion"; basic/versioning, "Version negotiation"

#[test]
fn a_consumer_must_declare_the_version_it_speaks() {
    assert_eq!(sent(&prepared(bare()))["protocolVersion"], "1.0");
    let relayed = prepared(with(json!({ "protocolVersion": "1.7" })));
    assert_eq!(sent(&relayed)["protocolVersion"], "1.0", "its own, whatever the input said before");
    assert_eq!(relayed.warnings, []);
}

#[test]
fn towards_an_agent_known_to_predate_the_field_it_is_left_out() {
    for version in ["0.0.1", "0.0.39", "0.0.57", "0.0.59"] {
        assert_eq!(sent(&for_agent(version, with(json!({ "protocolVersion": "1.0" })))).get("protocolVersion"), None);
    }
    assert_eq!(sent(&for_agent("1.0", bare()))["protocolVersion"], "1.0");
}

#[test]
fn an_agent_whose_version_is_not_known_is_treated_as_a_current_one() {
    assert!(Outgoing::default().agent.is_current());
}

#[test]
fn the_version_of_an_agent_is_1_0_or_a_release_from_before() {
    for text in ["1.0", "0.0.0", "0.0.39", "0.0.4294967295"] {
        assert_eq!(text.parse::<AgentVersion>().unwrap().to_string(), text);
    }
    for text in
        ["", "1", "1.1", "2.0", "1.0.0", "0.1.9", "0.0.", "0.0.x", "0.0.-1", "0.0.57.1", "0.0.4294967296", "old"]
    {
        let error = text.parse::<AgentVersion>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")) && error.contains("\"0.0.57\""), "{error}");
    }
    let order: Vec<AgentVersion> = ["0.0.9", "0.0.10", "1.0"].map(|text| text.parse().unwrap()).to_vec();
    assert!(order.is_sorted(), "compared as numbers");
}

// basic/processing, "Outgoing material"

#[test]
fn unrecognised_material_must_be_removed_and_is_told_with_its_path() {
    let prepared = prepared(with(json!({
        "mood": "fine",
        "messages": [
            { "id": "u", "role": "user", "content": [{ "type": "hologram", "x": 1 }, { "type": "text", "text": "hi", "font": 3 }] },
            { "id": "o", "role": "oracle" },
        ],
        "tools": [{ "name": "f", "description": "d", "price": 1 }],
        "forwardedProps": { "mood": "kept" },
    })));
    let unrecognised = OutgoingRule::Unrecognised;
    assert_eq!(
        warned(&prepared),
        [
            (unrecognised, "/messages/0/content/0"),
            (unrecognised, "/messages/0/content/1/font"),
            (unrecognised, "/messages/1"),
            (unrecognised, "/mood"),
            (unrecognised, "/tools/0/price"),
        ]
    );
    assert!(prepared.warnings[3].to_string().contains("/mood"), "{}", prepared.warnings[3]);
    assert_eq!(
        sent(&prepared),
        json!({
            "threadId": "t", "runId": "r2", "protocolVersion": "1.0",
            "messages": [{ "id": "u", "role": "user", "content": [{ "type": "text", "text": "hi" }] }],
            "tools": [{ "name": "f", "description": "d" }],
            "forwardedProps": { "mood": "kept" },
        })
    );
}

#[test]
fn a_malformed_known_field_must_be_fatal_before_anything_is_sent() {
    for (members, at) in [
        (json!({ "threadId": 1 }), "/threadId"),
        (json!({ "protocolVersion": 1.0 }), "/protocolVersion"),
        (json!({ "parentRunId": null }), "/parentRunId"),
        (json!({ "messages": {} }), "/messages"),
        (json!({ "messages": [{ "id": "u", "role": "user" }] }), "/messages/0/content"),
        (json!({ "messages": [{ "id": "u", "role": 5, "content": "" }] }), "/messages/0/role"),
        (json!({ "tools": [{ "name": "f" }] }), "/tools/0/description"),
        (json!({ "resume": [{ "interruptId": "i" }] }), "/resume/0/status"),
    ] {
        let error = Outgoing::default().prepare(with(members)).unwrap_err();
        let OutgoingError::Malformed { path, .. } = &error else { panic!("{error}") };
        assert_eq!(path, at);
        assert!(error.to_string().contains(at) && error.to_string().contains("nothing was sent"), "{error}");
    }
    let OutgoingError::Malformed { path, .. } = Outgoing::default().prepare(json!([])).unwrap_err() else { panic!() };
    assert_eq!(path, "/");
}

#[test]
fn a_downgrade_must_not_repair_a_malformed_value() {
    let text = json!([{ "type": "text", "text": 5 }]);
    for (version, members, at) in [
        (
            "0.0.39",
            json!({ "messages": [{ "id": "u", "role": "user", "content": text }] }),
            "/messages/0/content/0/text",
        ),
        (
            "0.0.57",
            json!({ "messages": [{ "id": "a", "role": "assistant", "subagentRunId": 5 }] }),
            "/messages/0/subagentRunId",
        ),
    ] {
        let outgoing = Outgoing { agent: version.parse().unwrap(), ..Outgoing::default() };
        let OutgoingError::Malformed { path, .. } = outgoing.prepare(with(members)).unwrap_err() else { panic!() };
        assert_eq!(path, at);
    }
}

#[test]
fn an_input_that_was_read_before_is_held_to_the_same_rules() {
    let mut input = RunAgentInput::new("t", "r", vec![]);
    assert_eq!(sent(&Outgoing::default().prepare_input(&input).unwrap())["protocolVersion"], "1.0");
    input.tools = Some(vec![runwire_agui::Tool { parameters: Some(Value::Null), ..runwire_agui::Tool::new("f", "d") }]);
    let prepared = Outgoing::default().prepare_input(&input).unwrap();
    assert_eq!(warned(&prepared), [(OutgoingRule::RetiredNull, "/tools/0/parameters")]);
    assert_eq!(sent(&prepared)["tools"], json!([{ "name": "f", "description": "d" }]));
}

// basic/run-input, "forwardedProps", "state"; basic/versioning, "Retired shapes"

#[test]
fn a_whole_null_of_forwarded_props_is_left_out_and_nulls_inside_are_preserved() {
    let whole = prepared(with(json!({ "forwardedProps": null })));
    assert_eq!(sent(&whole).get("forwardedProps"), None);
    assert_eq!(whole.warnings, [], "it says what its absence says");
    let props = json!({ "a": null, "b": [null] });
    assert_eq!(sent(&prepared(with(json!({ "forwardedProps": props }))))["forwardedProps"], props);
}

#[test]
fn a_state_that_a_snapshot_made_null_cannot_be_sent_and_is_told() {
    let prepared = prepared(with(json!({ "state": null })));
    assert_eq!(sent(&prepared).get("state"), None);
    assert_eq!(warned(&prepared), [(OutgoingRule::RetiredNull, "/state")]);
}

#[test]
fn a_retired_binary_part_is_sent_as_the_media_part_it_stands_for_without_a_word() {
    let binary = json!({ "type": "binary", "mimeType": "image/png", "url": "https://example.com/x.png" });
    for version in ["0.0.47", "0.0.57", "1.0"] {
        let prepared =
            for_agent(version, with(json!({ "messages": [{ "id": "u", "role": "user", "content": [binary] }] })));
        assert_eq!(prepared.warnings, [], "{version}");
        assert_eq!(
            sent(&prepared)["messages"][0]["content"],
            json!([{
                "type": "image",
                "source": { "type": "url", "value": "https://example.com/x.png", "mimeType": "image/png" },
            }])
        );
    }
}

// events/activity, "Activity messages in the conversation"; basic/run-input, "messages"

#[test]
fn activity_messages_must_be_stripped_from_what_is_sent() {
    let prepared = prepared(with(json!({ "messages": [
        { "id": "a1", "role": "activity", "activityType": "search", "content": {} },
        { "id": "u", "role": "user", "content": "hi" },
        { "id": "a2", "role": "activity", "activityType": "plan", "content": { "n": 1 }, "subagentRunId": "s" },
    ] })));
    assert_eq!(sent(&prepared)["messages"], json!([{ "id": "u", "role": "user", "content": "hi" }]));
    assert_eq!(prepared.warnings, [], "they are not conversation, so nothing is lost");
}

#[test]
fn an_activity_message_that_is_malformed_is_fatal_all_the_same() {
    let input = with(json!({ "messages": [{ "id": "a1", "role": "activity", "activityType": "search" }] }));
    assert!(matches!(Outgoing::default().prepare(input), Err(OutgoingError::Malformed { .. })));
}

// basic/versioning, "Downgrading"

#[test]
fn an_agent_that_knows_only_text_gets_text_and_a_lossy_downgrade_must_warn() {
    let image = json!({ "type": "image", "source": { "type": "data", "value": "AAAA", "mimeType": "image/png" } });
    let input = with(json!({ "messages": [
        { "id": "u1", "role": "user", "content": [{ "type": "text", "text": "What " }, { "type": "text", "text": "is it?" }] },
        { "id": "u2", "role": "user", "content": [{ "type": "text", "text": "See" }, image] },
        { "id": "u3", "role": "user", "content": [image] },
        { "id": "u4", "role": "user", "content": [{ "type": "text", "text": "x", "metadata": { "lang": "en" } }] },
        { "id": "r", "role": "reasoning", "content": "Hm." },
    ] }));
    let prepared = for_agent("0.0.39", input.clone());
    assert_eq!(
        sent(&prepared)["messages"],
        json!([
            { "id": "u1", "role": "user", "content": "What is it?" },
            { "id": "u2", "role": "user", "content": "See" },
            { "id": "u3", "role": "user", "content": "" },
            { "id": "u4", "role": "user", "content": "x" },
        ])
    );
    let lossy = OutgoingRule::LossyDowngrade;
    assert_eq!(
        warned(&prepared),
        [
            (lossy, "/messages/1/content"),
            (lossy, "/messages/2/content"),
            (lossy, "/messages/3/content"),
            (lossy, "/messages/4"),
        ],
        "text alone loses nothing"
    );
    let told = prepared.warnings[0].to_string();
    assert!(told.contains("part 1 (image)") && told.contains("0.0.39") && told.contains("An agent of 1.0"), "{told}");
    let newer = for_agent("0.0.40", input.clone());
    assert_eq!(newer.warnings, []);
    assert_eq!(sent(&newer)["messages"], input["messages"]);
}

#[test]
fn tool_messages_are_texts_to_every_agent_from_before_1_0() {
    let input = with(json!({ "messages": [{ "id": "t1", "role": "tool", "toolCallId": "c", "content": [
        { "type": "text", "text": "Done." },
        { "type": "document", "source": { "type": "url", "value": "https://example.com/a.pdf" } },
    ] }] }));
    for version in ["0.0.39", "0.0.59"] {
        let prepared = for_agent(version, input.clone());
        assert_eq!(sent(&prepared)["messages"][0]["content"], "Done.");
        assert_eq!(warned(&prepared), [(OutgoingRule::LossyDowngrade, "/messages/0/content")]);
    }
    assert_eq!(sent(&for_agent("1.0", input.clone()))["messages"], input["messages"]);
}

#[test]
fn a_file_handle_goes_only_to_agents_that_know_such_a_source() {
    let file = json!({ "type": "image", "source": { "type": "file", "value": "file-1", "provider": "openai" } });
    let input = with(json!({ "messages": [
        { "id": "u", "role": "user", "content": [{ "type": "text", "text": "See" }, file] },
    ] }));
    let prepared = for_agent("0.0.57", input.clone());
    assert_eq!(sent(&prepared)["messages"][0]["content"], json!([{ "type": "text", "text": "See" }]));
    assert_eq!(warned(&prepared), [(OutgoingRule::LossyDowngrade, "/messages/0/content/1")]);
    let current = for_agent("1.0", input.clone());
    assert_eq!(sent(&current)["messages"], input["messages"], "opaque, and passed on as it is");
}

#[test]
fn attribution_is_taken_off_for_agents_without_subagents_which_is_lossless_and_silent() {
    let input = with(json!({ "messages": [
        { "id": "a", "role": "assistant", "content": "Delegated.", "subagentRunId": "s" },
        { "id": "t1", "role": "tool", "toolCallId": "c", "content": "x", "subagentRunId": "s" },
    ] }));
    let prepared = for_agent("0.0.57", input.clone());
    assert!(!sent(&prepared).to_string().contains("subagentRunId"));
    assert_eq!(prepared.warnings, []);
    assert_eq!(sent(&for_agent("0.0.58", input.clone()))["messages"], input["messages"]);
}

#[test]
fn what_an_older_schema_requires_is_given_empty_and_never_invented() {
    let input = with(json!({ "tools": [{ "name": "f", "description": "d" }] }));
    assert_eq!(
        sent(&for_agent("0.0.57", input)),
        json!({
            "threadId": "t", "runId": "r2",
            "messages": [{ "id": "u", "role": "user", "content": "hi" }],
            "state": {}, "context": [], "forwardedProps": {},
            "tools": [{ "name": "f", "description": "d", "parameters": {} }],
        })
    );
    let given = with(json!({ "state": 5, "context": [], "forwardedProps": { "a": 1 }, "tools": [] }));
    let prepared = for_agent("0.0.57", given.clone());
    assert_eq!(sent(&prepared), given, "what is there stays");
    assert_eq!(sent(&for_agent("1.0", bare())).as_object().unwrap().len(), 4, "a current agent gets nothing added");
}

#[test]
fn what_comes_from_an_agent_without_subagents_loses_them_with_a_warning() {
    let stream = [
        json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" }),
        json!({ "type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "researcher" }),
        json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "s" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hi", "subagentRunId": "s" }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" }),
        json!({ "type": "MESSAGES_SNAPSHOT", "messages": [{ "id": "m", "role": "assistant", "content": "Hi", "subagentRunId": "s" }] }),
        json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "s" }),
        json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": { "type": "interrupt",
            "interrupts": [{ "id": "i", "reason": "x", "subagentRunId": "s" }] } }),
    ];
    let deliver = |version: &str| {
        let mut consumer = Consumer::new(ConsumerOptions::default()).of_agent(version.parse().unwrap());
        let mut delivered = Vec::new();
        for event in &stream {
            delivered.extend(consumer.push_json(event.to_string().as_bytes()).unwrap());
        }
        (delivered, consumer.take_warnings())
    };
    let (delivered, warnings) = deliver("0.0.57");
    let told: Vec<_> = warnings.iter().map(|warning| (warning.rule, warning.event)).collect();
    assert_eq!(told, [(WarningRule::UnknownEvent, 1), (WarningRule::UnknownEvent, 6)]);
    assert!(warnings[0].message.contains("SUBAGENT_STARTED") && warnings[0].message.contains("0.0.57"));
    assert_eq!(delivered.len(), 6, "the events of its work are there");
    let delivered: String = delivered.iter().map(|event| event.to_value().to_string()).collect();
    assert!(!delivered.contains("subagentRunId"), "{delivered}");
    for version in ["0.0.58", "1.0"] {
        let (delivered, warnings) = deliver(version);
        assert_eq!((delivered.len(), warnings.len()), (8, 0), "{version}");
    }
    let mut consumer = Consumer::new(ConsumerOptions::default()).of_agent("0.0.57".parse().unwrap());
    consumer.push_value(stream[0].clone()).unwrap();
    let malformed = json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": 5 });
    assert!(consumer.push_value(malformed).is_err(), "a downgrade must not repair");
}

// patterns/interrupt-resume, "Resuming"

#[test]
fn a_resuming_input_that_leaves_an_interrupt_uncovered_must_be_rejected() {
    let pending = interrupted(vec![interrupt("i1", None), interrupt("i2", None)]);
    let error = check(&pending, with(json!({ "resume": [entry("i2", "resolved")] }))).unwrap_err();
    assert_eq!(error, OutgoingError::Uncovered { interrupts: vec!["i1".to_owned()] });
    assert!(error.to_string().contains("'i1'") && !error.to_string().contains("'i2'"), "{error}");
    for nothing in [bare(), with(json!({ "resume": [] }))] {
        let error = check(&pending, nothing).unwrap_err();
        assert_eq!(error, OutgoingError::Uncovered { interrupts: vec!["i1".to_owned(), "i2".to_owned()] });
    }
    let whole = with(json!({ "resume": [entry("i2", "resolved"), entry("i1", "cancelled")] }));
    assert_eq!(check(&pending, whole.clone()).unwrap().input.resume().len(), 2, "given up is covered too");
}

#[test]
fn an_entry_must_name_an_interrupt_of_the_run_being_continued() {
    let pending = interrupted(vec![interrupt("i1", None)]);
    let strange = with(json!({ "resume": [entry("i1", "resolved"), entry("i9", "resolved")] }));
    let error = check(&pending, strange).unwrap_err();
    let waiting = vec!["i1".to_owned()];
    assert_eq!(error, OutgoingError::UnknownInterrupt { interrupt: "i9".to_owned(), waiting });
    assert!(error.to_string().contains("'i9'") && error.to_string().contains("'i1'"), "{error}");
    let late = with(json!({ "resume": [entry("i1", "resolved")] }));
    let error = check(&Pending::new(), late).unwrap_err();
    assert_eq!(error, OutgoingError::UnknownInterrupt { interrupt: "i1".to_owned(), waiting: vec![] });
    assert!(error.to_string().contains("what waits is nothing"), "{error}");
}

#[test]
fn an_interrupt_has_one_entry() {
    let twice = with(json!({ "resume": [entry("i1", "resolved"), entry("i1", "cancelled")] }));
    let answered_twice = OutgoingError::AnsweredTwice { interrupt: "i1".to_owned() };
    assert_eq!(check(&interrupted(vec![interrupt("i1", None)]), twice.clone()), Err(answered_twice.clone()));
    assert_eq!(Outgoing::default().prepare(twice), Err(answered_twice), "also where nobody keeps account");
}

#[test]
fn an_entry_with_an_unrecognised_status_is_stripped_and_covers_nothing() {
    let unknown = with(json!({ "resume": [entry("i1", "postponed")] }));
    let error = check(&interrupted(vec![interrupt("i1", None)]), unknown).unwrap_err();
    assert_eq!(error, OutgoingError::Uncovered { interrupts: vec!["i1".to_owned()] });
}

#[test]
fn an_expired_interrupt_can_be_given_up_but_no_longer_be_answered() {
    let resolved = || with(json!({ "resume": [entry("i1", "resolved")] }));
    let given_up = || with(json!({ "resume": [entry("i1", "cancelled")] }));
    for (expires_at, expired) in [
        ("2026-11-29T21:17:59Z", true),
        ("2026-11-29T21:18:00Z", true),
        ("2026-11-29T21:18:00.001Z", false),
        ("2026-11-29T23:18:00+02:00", true),
        ("2026-11-29", true),
        ("2026-11-30", false),
        ("when it rains", false),
    ] {
        let pending = interrupted(vec![interrupt("i1", Some(expires_at))]);
        let outcome = check(&pending, resolved());
        if expired {
            let error = outcome.unwrap_err();
            let expires_at = expires_at.to_owned();
            assert!(error.to_string().contains("'i1'") && error.to_string().contains(&expires_at), "{error}");
            assert_eq!(error, OutgoingError::Expired { interrupt: "i1".to_owned(), expires_at });
        } else {
            assert!(outcome.is_ok(), "{expires_at}: {outcome:?}");
        }
        assert!(check(&pending, given_up()).is_ok(), "{expires_at}");
        assert!(matches!(check(&pending, bare()), Err(OutgoingError::Uncovered { .. })), "an expiry is no entry");
    }
}

#[test]
fn the_resuming_run_carries_the_same_thread() {
    let pending = interrupted(vec![interrupt("i1", None)]);
    let elsewhere = with(json!({ "threadId": "t2", "resume": [entry("i1", "resolved")] }));
    let error = check(&pending, elsewhere).unwrap_err();
    assert_eq!(error, OutgoingError::OtherThread { sent: "t2".to_owned(), asked: "t".to_owned() });
    assert!(check(&pending, with(json!({ "threadId": "t2" }))).is_ok(), "another thread has other business");
}

#[test]
fn the_answers_of_a_run_that_did_not_come_to_its_end_may_be_sent_once_more() {
    let mut pending = interrupted(vec![interrupt("i1", None)]);
    let answers = || with(json!({ "resume": [entry("i1", "resolved")] }));
    pending.apply(&Event::RunStarted(RunStarted::new("t", "r2")));
    assert!(check(&pending, answers()).is_ok(), "the connection broke");
    pending.apply(&Event::RunError(runwire_agui::RunError::new("out of memory")));
    assert!(check(&pending, answers()).is_ok(), "the run failed");
    assert!(check(&pending, bare()).is_ok(), "and nothing waits any more");
    pending.apply(&Event::RunStarted(RunStarted::new("t", "r3")));
    pending.apply(&finished(None));
    assert!(check(&pending, answers()).is_err(), "they have been taken");
}

#[test]
fn where_nobody_keeps_account_answers_are_sent_as_they_are() {
    let prepared = prepared(with(
        json!({ "resume": [{ "interruptId": "i", "status": "resolved", "payload": { "ok": true }, "metadata": { "by": "ann" } }] }),
    ));
    assert_eq!(sent(&prepared)["resume"][0]["payload"], json!({ "ok": true }));
    assert_eq!(prepared.warnings, []);
}

// events/tool-calls, "Frontend tools"

/// A thread whose last run called `pick`, a frontend tool, and `look`, one of the agent's own, and answered neither.
fn called(tools: Value, outcome: Option<Value>) -> Pending {
    let (input, _) = RunAgentInput::decode_value(with(json!({ "runId": "r1", "tools": tools }))).unwrap();
    let mut pending = Pending::for_input(&input);
    pending.apply(&Event::RunStarted(RunStarted::new("t", "r1")));
    for (id, name) in [("c1", "pick"), ("c2", "look")] {
        pending.apply(&Event::ToolCallStart(ToolCallStart::new(id, name)));
        pending.apply(&Event::ToolCallEnd(ToolCallEnd::new(id)));
    }
    pending.apply(&finished(outcome.map(|outcome| serde_json::from_value(outcome).unwrap())));
    pending
}

fn answer(call: &str) -> Value {
    json!({ "id": format!("answer-{call}"), "role": "tool", "toolCallId": call, "content": "", "error": "declined" })
}

fn unanswered(result: Result<PreparedInput, OutgoingError>) -> Vec<String> {
    match result {
        Ok(_) => vec![],
        Err(OutgoingError::UnansweredToolCalls { calls }) => calls.into_iter().map(|call| call.id).collect(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_thread_that_continues_must_answer_every_frontend_call_first() {
    let pick = json!([{ "name": "pick", "description": "d" }]);
    for outcome in
        [None, Some(json!({ "type": "success" })), Some(json!({ "type": "success", "pendingToolCallIds": [] }))]
    {
        let pending = called(pick.clone(), outcome);
        let error = check(&pending, bare()).unwrap_err();
        assert!(error.to_string().contains("'pick' ('c1')"), "{error}");
        assert_eq!(unanswered(Err(error)), ["c1"], "the agent's own tools need not answer in the stream");
        let answered = with(json!({ "messages": [answer("c1")] }));
        assert_eq!(unanswered(check(&pending, answered)), [""; 0], "a failure is an answer");
    }
}

#[test]
fn calls_that_the_run_named_are_answered_whatever_their_tool() {
    let named = json!({ "type": "success", "pendingToolCallIds": ["c1", "c2"] });
    let pending = called(json!([]), Some(named));
    assert_eq!(unanswered(check(&pending, with(json!({ "messages": [answer("c1")] })))), ["c2"]);
    assert_eq!(unanswered(check(&pending, with(json!({ "messages": [answer("c1"), answer("c2")] })))), [""; 0]);
}

#[test]
fn where_the_tools_of_the_run_are_not_known_those_of_the_next_input_tell() {
    let mut pending = Pending::new();
    pending.apply(&Event::RunStarted(RunStarted::new("t", "r1")));
    pending.apply(&Event::ToolCallStart(ToolCallStart::new("c1", "pick")));
    pending.apply(&finished(None));
    assert_eq!(unanswered(check(&pending, bare())), [""; 0]);
    let offering = with(json!({ "tools": [{ "name": "pick", "description": "d" }] }));
    assert_eq!(unanswered(check(&pending, offering)), ["c1"]);
}

#[test]
fn a_call_behind_an_interrupt_is_answered_by_its_resume_entry() {
    let tools = json!([{ "name": "pick", "description": "d" }, { "name": "look", "description": "d" }]);
    let outcome =
        json!({ "type": "interrupt", "interrupts": [{ "id": "i", "reason": "approval", "toolCallId": "c2" }] });
    let pending = called(tools, Some(outcome));
    let resume = json!([entry("i", "resolved")]);
    assert_eq!(unanswered(check(&pending, with(json!({ "resume": resume })))), ["c1"]);
    assert_eq!(unanswered(check(&pending, with(json!({ "resume": resume, "messages": [answer("c1")] })))), [""; 0]);
}

#[test]
fn a_cancelled_run_waits_for_nothing() {
    let tools = json!([{ "name": "pick", "description": "d" }]);
    assert!(check(&called(tools, Some(json!({ "type": "cancelled" }))), bare()).is_ok());
}

#[test]
fn where_nobody_keeps_account_an_unanswered_frontend_call_is_told() {
    let calls = json!([
        { "id": "c1", "type": "function", "function": { "name": "pick", "arguments": "{}" } },
        { "id": "c2", "type": "function", "function": { "name": "look", "arguments": "{}" } },
    ]);
    let input = |more: Value| {
        let mut members = json!({
            "messages": [{ "id": "a", "role": "assistant", "toolCalls": calls }],
            "tools": [{ "name": "pick", "description": "d" }],
        });
        members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        with(members)
    };
    let prepared_input = prepared(input(json!({})));
    assert_eq!(warned(&prepared_input), [(OutgoingRule::UnansweredToolCall, "/messages/0/toolCalls/0")]);
    assert!(prepared_input.warnings[0].to_string().contains("'c1'"));
    let resuming = prepared(input(json!({ "resume": [entry("i", "resolved")] })));
    assert_eq!(resuming.warnings, [], "the entry may be its answer");
}
