//! Both bindings give the same verdict on the same stream: the generated streams as Server-Sent Events and as protobuf
//! frames, conforming and with those mistakes that protobuf can express, by this project's consumer and by the released
//! client, which reads the frames with the released `@ag-ui/proto`.

use std::ops::Range;

use runwire_agui::Event;
use runwire_agui::proto::{ProtoDecoder, ProtoEncoder};
use serde_json::{Value, json};

use super::{DIFFERENCES, Made, UNTAGGED, difference, judged_by, listing, ours, ours_of, stream, theirs, walk};
use crate::real_part;

/// The seeds of the test; those with a mistake that only JSON can have are left out.
const SEEDS: Range<u64> = 0..1600;

/// The stream as frames; `None` when an event of it is none that protobuf has a form for.
fn frames(events: &[Value]) -> Option<Vec<Vec<u8>>> {
    let frame = |event: &Value| {
        let mut out = Vec::new();
        ProtoEncoder::encode_event(&mut out, &Event::from_value(event.clone()).ok()?).ok()?;
        Some(out)
    };
    events.iter().map(frame).collect()
}

fn ours_of_frames(frames: &[Vec<u8>]) -> Made {
    let mut decoder = ProtoDecoder::new(1 << 20);
    let read: Vec<_> = frames.iter().flat_map(|frame| decoder.push(frame)).collect();
    let values: Vec<Value> = read
        .into_iter()
        .map(|frame| match frame {
            Ok(runwire_agui::proto::ProtoEvent::Event(value)) => value,
            other => panic!("{other:?} was read of what was written"),
        })
        .collect();
    assert_eq!(values.len(), frames.len());
    ours_of(&values, |consumer, value| consumer.push_value(value.clone()).map(Iterator::collect))
}

/// What of messages protobuf cannot tell: a list of tool calls that is empty from one that is absent.
fn narrowed(messages: &Value) -> Value {
    let mut messages = messages.clone();
    for message in messages.as_array_mut().unwrap() {
        let message = message.as_object_mut().unwrap();
        if message.get("toolCalls") == Some(&json!([])) {
            message.remove("toolCalls");
        }
    }
    messages
}

/// What an application sees of a verdict.
fn seen(made: &Made) -> (Option<&str>, bool, &[String], Value, &Value) {
    let rule = made.rejected.as_ref().map(|(rule, _)| rule.as_str());
    (rule, made.truncated, &made.types, narrowed(&made.messages), &made.state)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_bindings_give_the_same_verdict_on_the_same_stream() {
    let mut streams = Vec::new();
    let (mut accepted, mut rejected) = (0, 0);
    for seed in SEEDS {
        let (mutation, events) = stream(seed);
        let Some(frames) = frames(&events) else {
            assert!(mutation.is_some(), "seed {seed}: every conforming stream has a binary form");
            continue;
        };
        let (by_json, by_frames) = (ours(&events), ours_of_frames(&frames));
        let told = mutation.as_deref().unwrap_or("conforming");
        assert_eq!(seen(&by_json), seen(&by_frames), "seed {seed}, {told}: {events:#?}");
        *if by_json.rejected.is_some() { &mut rejected } else { &mut accepted } += 1;
        streams.push((seed, told.to_owned(), events, frames, by_frames));
    }
    assert!(accepted > 500 && rejected > 200, "both verdicts are given often: {accepted} and {rejected}");
    if !real_part::node() {
        return;
    }
    let hex = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let line =
        |frames: &[Vec<u8>]| json!({"input": walk::input(), "frames": frames.iter().map(hex).collect::<Vec<_>>()});
    let lines: Vec<Value> = streams.iter().map(|(.., frames, _)| line(frames)).collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    let (mut verdicts, rest) = tokio::join!(judged_by("1.0.0", first), judged_by("1.0.0", second));
    verdicts.extend(rest);
    let mut unlisted = std::collections::BTreeMap::new();
    for ((seed, told, events, _, ours), verdict) in streams.iter().zip(&verdicts) {
        let theirs = theirs(verdict);
        let Some(found) = difference(ours, &theirs) else { continue };
        if found == UNTAGGED || told != "conforming" && DIFFERENCES.iter().any(|row| row.difference == found) {
            continue;
        }
        unlisted.entry(found).or_insert_with(|| (0, listing(*seed, Some(told), events, ours, &theirs))).0 += 1;
    }
    let unlisted: String =
        unlisted.iter().map(|(found, (n, example))| format!("{found} ({n} streams), as in {example}\n")).collect();
    assert!(unlisted.is_empty(), "differences that are not listed:\n{unlisted}");
}
