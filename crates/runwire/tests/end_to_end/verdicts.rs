//! Thousands of generated streams, conforming and with one mistake each: what this project's consumer and the released
//! `@ag-ui/client` 1.0.0 make of them, event for event, message for message.
//!
//! Where the two differ, the specification decides, and [`DIFFERENCES`] says by which sentence; `docs/interop.md` says it
//! to people. A difference that is not listed fails the test, and so does a row that no stream shows any more.

mod half_pair;
mod mutation;
mod older;
mod protobuf;
#[path = "../../../agui/tests/walk/mod.rs"]
pub mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;

use runwire_agui::{
    Consumer, ConsumerOptions, Event, Reducer, Rejected, RunAgentInput, StreamEnd, Warning, WarningRule,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::real_part::{self, script};
use mutation::Mutation;
use walk::Dice;

/// The streams of the test. `RUNWIRE_VERDICT_SEEDS=FROM..TO` looks at others.
const SEEDS: Range<u64> = 0..3000;

/// A kind of difference, the page of the specification that decides it, and what that page says.
struct Row {
    difference: &'static str,
    page: &'static str,
    decides: &'static str,
}

/// In every one of these the released client is the more lenient or the more strict, and this project's consumer does what
/// the text says.
const DIFFERENCES: [Row; 13] = [
    Row {
        difference: "truncated",
        page: "basic/transports, \"Truncation\"",
        decides: "a stream that stops inside a run is no success; the client resolves as if it were",
    },
    Row {
        difference: "foreign-thread",
        page: "basic/run-input, \"Identity\"",
        decides: "every run on a stream carries the threadId of the input",
    },
    Row {
        difference: "run-id-mismatch",
        page: "basic/run-input, \"Identity\"",
        decides: "the two events that bound a run must agree on its runId",
    },
    Row {
        difference: "thread-id-mismatch",
        page: "basic/run-input, \"Identity\"",
        decides: "RUN_FINISHED carries the threadId of the input, as RUN_STARTED does",
    },
    Row {
        difference: "pending-tool-calls",
        page: "events/tool-calls, \"Frontend tools\"",
        decides: "a list of pending calls must name exactly those that the run started and did not answer",
    },
    Row {
        difference: "subagent-announced-late",
        page: "events/subagents, \"Lifecycle\"",
        decides: "an announcement must come before every event that is attributed to the invocation",
    },
    Row {
        difference: "malformed-value: what tells a union's members apart",
        page: "basic/processing, \"The rule\"",
        decides: "a described member with a value that the schema rejects is fatal; the client takes a type, op or role \
                  that is missing or no string for a member it does not know, and strips it",
    },
    Row {
        difference: "unknown-member: of a closed set of strings",
        page: "basic/processing, \"What a consumer does with unrecognised material\"",
        decides: "an unknown value of a closed set is stripped like any other; the page's note names the client's refusal \
                  a gap",
    },
    Row {
        difference: "two messages with one id",
        page: "events/state, MESSAGES_SNAPSHOT",
        decides: "a message's id is what it is found and replaced by, so a tool result that comes twice is held once; the \
                  client holds both, and amends the first of two with one id where this reducer amends the last",
    },
    Row {
        difference: "the end that an explicit event brings about in another lane",
        page: "basic/patterns/streaming, \"The chunked form\"",
        decides: "an explicit event with the id of an item that chunks assemble ends the shorthand, in whatever lane that \
                  is, and is then judged; the client looks only at the lane of the event's own tag",
    },
    Row {
        difference: "an activity snapshot with the id of another message",
        page: "events/text-messages, TEXT_MESSAGE_END",
        decides: "no event but a reopening or a MESSAGES_SNAPSHOT changes a closed message, and a snapshot of an activity \
                  replaces an activity; so it is skipped with a warning, where the client puts it in the message's place",
    },
    Row {
        difference: "an empty parentMessageId",
        page: "events/tool-calls, TOOL_CALL_START",
        decides: "a parentMessageId that is there attaches the call to that message, and the schema asks no length of an id; \
                  the client takes an empty one for absent",
    },
    Row {
        difference: UNTAGGED,
        page: "events/subagents, \"Ownership\"",
        decides: "an untagged continuation continues whatever its opener owns, so it is in that lane and ends no shorthand of \
                  the parent agent's; the client takes it for an event of the parent agent",
    },
];

/// The one difference that a conforming stream can show.
const UNTAGGED: &str = "the lane of an untagged continuation";

/// What a consumer makes of a stream.
struct Made {
    /// Our rule and the sentence, or their message.
    rejected: Option<(String, String)>,
    truncated: bool,
    types: Vec<String>,
    messages: Value,
    state: Value,
    warnings: Vec<Warning>,
    /// Whether an explicit event ended an item of chunks that is in another lane than its tag names.
    crossed: bool,
    /// Whether an untagged event is about what a subagent owns.
    untagged: bool,
}

/// By the consumer pipeline and the reducer of this project.
fn ours(events: &[Value]) -> Made {
    ours_of(events, |consumer, event| consumer.push_json(event.to_string().as_bytes()).map(Iterator::collect))
}

/// The same of events that `push` takes one by one.
fn ours_of<T>(events: &[T], push: impl Fn(&mut Consumer, &T) -> Result<Vec<Event>, Rejected>) -> Made
where
    T: Serialize,
{
    let (input, _) = RunAgentInput::decode_value(walk::input()).unwrap();
    let mut reducer = Reducer::from_input(&input);
    let mut consumer = Consumer::new(ConsumerOptions { input: Some(input) });
    let (mut types, mut warnings, mut crossed) = (Vec::new(), Vec::new(), false);
    let sent: Vec<Value> = events.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    let untagged = continues_untagged(&sent);
    for (index, event) in events.iter().enumerate() {
        let (delivered, rejected) = match push(&mut consumer, event) {
            Ok(delivered) => (delivered, false),
            Err(rejected) => (rejected.delivered, true),
        };
        crossed |= delivered.first().is_some_and(|end| crosses(&sent[index], &end.to_value()));
        for event in delivered {
            types.push(event.event_type().as_str().to_owned());
            warnings.extend(reducer.apply(event, index));
        }
        if rejected {
            break;
        }
    }
    let (rejected, truncated) = match consumer.finish() {
        StreamEnd::Completed { .. } => (None, false),
        StreamEnd::Rejected { violation, .. } => (Some((violation.rule.to_string(), violation.message)), false),
        StreamEnd::Truncated { .. } => (None, true),
    };
    warnings.extend(consumer.take_warnings());
    let (messages, state) = reducer.into_parts();
    Made {
        rejected,
        truncated,
        types,
        messages: serde_json::to_value(messages).unwrap(),
        state,
        warnings,
        crossed,
        untagged,
    }
}

/// Whether an event without a tag is about an item that a subagent owns.
fn continues_untagged(events: &[Value]) -> bool {
    let mut owners: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for event in events {
        let member = |name: &str| event[name].as_str();
        let Some(name) = member("type") else { continue };
        if name == "RUN_STARTED" {
            owners.clear();
        }
        let families = ["TEXT_MESSAGE", "TOOL_CALL", "REASONING_MESSAGE", "REASONING"];
        let Some(family) = families.into_iter().find(|family| name.starts_with(family)) else { continue };
        let carrier = member("parentMessageId").and_then(|id| owners.get(&("TEXT_MESSAGE", id))).copied();
        let Some(id) = member("messageId").or(member("toolCallId")) else { continue };
        match member("subagentRunId") {
            Some(tag) => {
                owners.entry((family, id)).or_insert(tag);
            }
            None if carrier.is_some() || owners.contains_key(&(family, id)) => return true,
            None => {}
        }
    }
    false
}

/// Whether `end`, the first that is delivered of an explicit event, closes that event's item in another lane.
fn crosses(event: &Value, end: &Value) -> bool {
    let id = |event: &Value| event.get("messageId").or_else(|| event.get("toolCallId")).cloned();
    let ends = end["type"].as_str().is_some_and(|name| name.ends_with("_END"));
    let chunk = event["type"].as_str().is_some_and(|name| name.ends_with("_CHUNK"));
    ends && !chunk && id(event).is_some() && id(event) == id(end) && event["subagentRunId"] != end["subagentRunId"]
}

/// By the released client, from its document.
fn theirs(verdict: &Value) -> Made {
    assert_eq!(verdict["unhandled"], json!([]), "the client let something escape: {verdict:#}");
    let types = verdict["types"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    Made {
        rejected: verdict["error"].as_str().map(|message| ("rejected".to_owned(), message.to_owned())),
        truncated: false,
        types,
        messages: verdict["messages"].clone(),
        state: verdict["state"].clone(),
        warnings: Vec::new(),
        crossed: false,
        untagged: false,
    }
}

/// The kind of difference between the two, if there is one.
fn difference(ours: &Made, theirs: &Made) -> Option<String> {
    // Their rejection comes first and ends the comparison, whatever would have come of the rest.
    let closed_set = |warning: &Warning| {
        let last = warning.path.as_deref().and_then(|path| path.rsplit('/').next());
        warning.rule == WarningRule::UnknownMember && matches!(last, Some("role" | "subtype" | "status"))
    };
    if theirs.rejected.is_some()
        && ours.types != theirs.types
        && ours.types.starts_with(&theirs.types)
        && ours.warnings.iter().any(closed_set)
    {
        return Some("unknown-member: of a closed set of strings".to_owned());
    }
    let same = ours.rejected.is_some() == theirs.rejected.is_some() && ours.types == theirs.types;
    if ours.crossed && !same {
        return Some("the end that an explicit event brings about in another lane".to_owned());
    }
    if ours.untagged && !same {
        return Some(UNTAGGED.to_owned());
    }
    // The client may find fault with what it should not have come to.
    let went_on = theirs.types.len() > ours.types.len() && theirs.types.starts_with(&ours.types);
    match (&ours.rejected, &theirs.rejected) {
        (Some((rule, message)), rejected) if rejected.is_none() || went_on => {
            let path = message.split_once(" is malformed at ").and_then(|(_, rest)| rest.split(':').next());
            let tag = path.and_then(|path| path.rsplit('/').next());
            return Some(match (rule.as_str(), tag) {
                ("malformed-value", Some("type" | "op" | "role")) => {
                    "malformed-value: what tells a union's members apart".to_owned()
                }
                ("malformed-value", _) => format!("malformed-value: {message}"),
                _ => rule.clone(),
            });
        }
        (None, Some((_, message))) => return Some(format!("rejected by the client alone: {message}")),
        _ => {}
    }
    let by_rule = || ours.rejected.as_ref().map_or("accepted", |(rule, _)| rule);
    if ours.types != theirs.types {
        return Some(format!("delivered events, {}", by_rule()));
    }
    if ours.state != theirs.state {
        return Some(format!("state, {}", by_rule()));
    }
    if ours.messages != theirs.messages {
        let doubled = [&ours.messages, &theirs.messages].into_iter().any(|messages| {
            let mut ids = BTreeSet::new();
            messages.as_array().unwrap().iter().any(|message| !ids.insert(message["id"].as_str()))
        });
        let usurping = ours.warnings.iter().any(|warning| {
            warning.rule == WarningRule::ActivityTarget && warning.message.starts_with("ACTIVITY_SNAPSHOT")
        });
        let nameless = ours.messages.as_array().unwrap().iter().any(|message| message["id"] == "");
        return Some(match (doubled, usurping, nameless) {
            (true, ..) => "two messages with one id".to_owned(),
            (_, true, _) => "an activity snapshot with the id of another message".to_owned(),
            (.., true) => "an empty parentMessageId".to_owned(),
            _ => format!("messages, {}", by_rule()),
        });
    }
    ours.truncated.then(|| "truncated".to_owned())
}

/// A stream for each row of [`DIFFERENCES`], in their order, so that none depends on what the seeds happen upon.
fn composed() -> [Vec<Value>; 13] {
    let started = || json!({"type": "RUN_STARTED", "threadId": walk::THREAD, "runId": walk::RUN});
    let finished = || json!({"type": "RUN_FINISHED", "threadId": walk::THREAD, "runId": walk::RUN});
    let with = |mut event: Value, member: &str, value: Value| {
        event[member] = value;
        event
    };
    let call = || json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "ask", "delta": "{}"});
    let result = || json!({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": "a"});
    let none_pending = json!({"type": "success", "pendingToolCallIds": ["another"]});
    let step = json!({"type": "STEP_STARTED", "stepName": "plan", "subagentRunId": "s"});
    let announced = json!({"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "reader"});
    let left = json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "s"});
    let value =
        json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "part", "entityId": "t", "encryptedValue": "eA=="});
    let activity = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "t", "activityType": "search", "content": {}});
    let chunk = json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a"});
    let foreign = json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "s"});
    let owned = foreign.clone();
    let said = json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "p", "delta": "a"});
    let continuation = json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"});
    let more = json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "b"});
    let end = json!({"type": "TEXT_MESSAGE_END", "messageId": "m"});
    [
        vec![started()],
        vec![with(started(), "threadId", json!("another")), with(finished(), "threadId", json!("another"))],
        vec![started(), with(finished(), "runId", json!("another"))],
        vec![started(), with(finished(), "threadId", json!("another"))],
        vec![started(), call(), result(), with(finished(), "outcome", none_pending)],
        vec![started(), step.clone(), announced, with(step, "type", json!("STEP_FINISHED")), left, finished()],
        vec![started(), with(finished(), "outcome", json!({"type": 7}))],
        vec![started(), value, finished()],
        vec![started(), call(), result(), result(), finished()],
        vec![started(), chunk, foreign, finished()],
        vec![started(), result(), activity, finished()],
        vec![started(), with(call(), "parentMessageId", json!("")), finished()],
        vec![started(), owned, said, continuation, more, end, finished()],
    ]
}

/// A stream and what both made of it, for whoever has to find out which of them is right. `told` says what is wrong with it.
fn listing(seed: u64, told: Option<&str>, events: &[Value], ours: &Made, theirs: &Made) -> String {
    let lines: String = events.iter().enumerate().map(|(index, event)| format!("  {index} {event}\n")).collect();
    let rows: String = [
        (format!("{:?}", ours.rejected), format!("{:?}", theirs.rejected)),
        (format!("{:?}", ours.types), format!("{:?}", theirs.types)),
        (ours.messages.to_string(), theirs.messages.to_string()),
        (ours.state.to_string(), theirs.state.to_string()),
    ]
    .iter()
    .map(|(ours, theirs)| format!(" ours:   {ours}\n theirs: {theirs}\n"))
    .collect();
    format!("seed {seed}, {}\n{rows}{lines}", told.unwrap_or("conforming"))
}

/// The stream of a seed, and what is wrong with it; `None` when nothing is.
fn stream(seed: u64) -> (Option<String>, Vec<Value>) {
    let steps = walk::stream(seed);
    let mut dice = Dice::new(!seed);
    let mut events = match dice.below(4) {
        0 => walk::explicit(&steps),
        1 => walk::chunked(&steps),
        _ => walk::mixed(&steps, &mut dice),
    };
    if seed.is_multiple_of(4) {
        return (None, events);
    }
    let mutation = *dice.pick(&Mutation::ALL);
    let place = mutation.apply(&mut events, &mut dice);
    (Some(format!("{mutation} at {place}")), events)
}

/// What a released client makes of streams, each as `verdicts.mjs` wants it.
async fn judged_by(client: &str, streams: &[impl Display]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("streams.ndjson");
    std::fs::write(&file, streams.iter().map(|stream| format!("{stream}\n")).collect::<String>()).unwrap();
    let file = file.to_str().unwrap();
    let document = script("verdicts.mjs", &["--client", client, "--streams", file, "--timeout", "55"]).await;
    let verdicts = document["verdicts"].as_array().unwrap().clone();
    assert_eq!(verdicts.len(), streams.len());
    verdicts
}

fn seeds() -> Range<u64> {
    let Ok(range) = std::env::var("RUNWIRE_VERDICT_SEEDS") else { return SEEDS };
    let (from, to) = range.split_once("..").expect("RUNWIRE_VERDICT_SEEDS is FROM..TO");
    from.parse().unwrap()..to.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_released_client_and_this_consumer_differ_only_where_the_specification_says_so() {
    if !real_part::node() {
        return;
    }
    let seeds = seeds();
    let mut streams: Vec<(u64, Option<String>, Vec<Value>)> = seeds
        .clone()
        .map(|seed| {
            let (mutation, events) = stream(seed);
            (seed, mutation, events)
        })
        .collect();
    for (row, events) in DIFFERENCES.iter().zip(composed()) {
        streams.push((u64::MAX, Some(format!("composed for {}", row.difference)), events));
    }
    let lines: Vec<Value> =
        streams.iter().map(|(.., events)| json!({"input": walk::input(), "events": events})).collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    let (mut verdicts, rest) = tokio::join!(judged_by("1.0.0", first), judged_by("1.0.0", second));
    verdicts.extend(rest);

    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut accepted, mut rejected) = (0, 0);
    for ((seed, mutation, events), verdict) in streams.iter().zip(&verdicts) {
        let (ours, theirs) = (ours(events), theirs(verdict));
        if ours.rejected.is_some() {
            rejected += 1;
        } else {
            accepted += 1;
        }
        let listing = || listing(*seed, mutation.as_deref(), events, &ours, &theirs);
        let found = difference(&ours, &theirs);
        if mutation.is_none() {
            // But for one row nothing is decided in our favour here: a conforming stream is accepted by both, and makes the same.
            let same = found.as_deref().is_none_or(|found| found == UNTAGGED);
            assert!(ours.rejected.is_none() && !ours.truncated && same, "{found:?} of {}", listing());
        }
        if let Some(found) = found {
            // A composed stream shows its own row.
            if let Some(row) = mutation.as_deref().and_then(|text| text.strip_prefix("composed for ")) {
                assert_eq!(found, row, "{}", listing());
            }
            seen.entry(found).or_default().push(listing());
        }
    }
    let counts: Vec<String> = seen.iter().map(|(found, streams)| format!("{found}: {}", streams.len())).collect();
    println!("{accepted} accepted, {rejected} rejected; differences:\n{}", counts.join("\n"));
    let unlisted = seen.iter().filter(|(found, _)| DIFFERENCES.iter().all(|row| row.difference != *found));
    let unlisted: String = unlisted.map(|(found, streams)| format!("{found}, as in {}\n", streams[0])).collect();
    assert!(unlisted.is_empty(), "differences that are not listed:\n{unlisted}");
    for Row { difference, page, decides } in &DIFFERENCES {
        assert!(seen.contains_key(*difference), "no stream shows `{difference}` any more ({page}: {decides})");
    }
    if seeds == SEEDS {
        assert!(accepted > 1000 && rejected > 1000, "both verdicts are given often: {accepted} and {rejected}");
    }
}

#[test]
fn the_page_about_differences_lists_the_rows_of_this_table() {
    let page = include_str!("../../../../docs/interop.md");
    for Row { difference, page: section, .. } in &DIFFERENCES {
        let row = page.lines().find(|line| line.starts_with(&format!("| {difference} |")));
        let row = row.unwrap_or_else(|| panic!("docs/interop.md has no row `{difference}`"));
        assert!(row.contains(section), "docs/interop.md decides `{difference}` by another page than {section}");
    }
}
