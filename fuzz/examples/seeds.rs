//! Writes the corpora that fuzzing begins with, made of the project's own samples: every event with all of its members and
//! with none, the streams of the catalogue of rules, and conforming streams of the walk that the tests use.

#[path = "../../crates/agui/tests/walk/mod.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod walk;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use runwire_agui::proto::ProtoEncoder;
use runwire_agui::{CheckRule, Event, Example, SseEncoder};
use serde_json::Value;
use walk::Dice;

/// Every event type, with its required members alone (`bare`) and with all (`full`).
const SAMPLES: &str = include_str!("../../crates/agui/tests/samples/events.json");

/// Streams of the walk in each corpus.
const WALKS: u64 = 40;

/// Where the pieces are cut that the targets read bytes in, which stands in front of most inputs.
const CUTS: [u8; 3] = [7, 0, 23];

struct Corpora {
    folder: PathBuf,
    written: usize,
}

impl Corpora {
    fn write(&mut self, target: &str, name: &str, seed: &[u8]) -> io::Result<()> {
        let folder = self.folder.join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), seed)?;
        self.written += 1;
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let mut corpora = Corpora { folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"), written: 0 };
    events(&mut corpora)?;
    catalogue(&mut corpora)?;
    walks(&mut corpora)?;
    sequences(&mut corpora)?;
    logs(&mut corpora)?;
    dictionary(&corpora.folder.join("words.dict"))?;
    println!("{} seeds are in {}", corpora.written, corpora.folder.display());
    Ok(())
}

fn events(corpora: &mut Corpora) -> io::Result<()> {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES)?;
    for (index, pair) in samples.iter().enumerate() {
        for kind in ["bare", "full"] {
            let name = format!("{index:02}-{kind}");
            corpora.write("json_events", &name, pair[kind].to_string().as_bytes())?;
            let event = Event::from_value(pair[kind].clone())?;
            let mut frame = Vec::new();
            ProtoEncoder::encode_event(&mut frame, &event).map_err(io::Error::other)?;
            // The body of one frame, and the frame as it is on the wire.
            corpora.write("proto_frames", &format!("{name}-body"), &[&CUTS[..], &[0], &frame[4..]].concat())?;
            corpora.write("proto_frames", &name, &[&CUTS[..], &[1], &frame].concat())?;
        }
    }
    corpora.write("json_events", "input", walk::input().to_string().as_bytes())
}

/// The words of the protocol, each of which a fuzzer would need very long to guess.
fn dictionary(path: &Path) -> io::Result<()> {
    let samples: Value = serde_json::from_str(SAMPLES)?;
    let mut words = BTreeSet::new();
    collect_words(&samples, &mut words);
    words.extend(walk::input().as_object().into_iter().flat_map(|input| input.keys().cloned()));
    // Retired shapes and values of unions that no sample has.
    for word in [
        "THINKING_START",
        "THINKING_END",
        "THINKING_TEXT_MESSAGE_START",
        "THINKING_TEXT_MESSAGE_CONTENT",
        "THINKING_TEXT_MESSAGE_END",
        "binary",
        "success",
        "cancelled",
        "expired",
        "assistant",
        "system",
        "title",
    ] {
        words.insert(word.to_owned());
    }
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut lines: Vec<String> = words.iter().map(|word| format!("\"{}\"", escaped(&format!("\"{word}\"")))).collect();
    lines.extend(
        ["null", "true", "1e308", "-0.0", "9007199254740992", "18446744073709551615", "\"\":\"", "},{", "[[", "]]"]
            .map(|text| format!("\"{}\"", escaped(text))),
    );
    lines.extend(
        [
            r#""data: ""#,
            r#""id: ""#,
            r#""event: ""#,
            r#""retry: ""#,
            r#""\x0a\x0a""#,
            r#""\x0d\x0a""#,
            r#""\x0d""#,
            r#""\xef\xbb\xbf""#,
        ]
        .map(str::to_owned),
    );
    std::fs::write(path, lines.join("\n") + "\n")
}

fn collect_words(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            words.extend(members.keys().filter(|name| name.is_ascii()).cloned());
            members.values().for_each(|member| collect_words(member, words));
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect_words(element, words)),
        Value::String(text) if text.is_ascii() => {
            words.insert(text.clone());
        }
        _ => {}
    }
}

fn catalogue(corpora: &mut Corpora) -> io::Result<()> {
    for rule in CheckRule::all() {
        let mut both = |bad: &[u8], good: &[u8]| {
            for (kind, stream) in [("bad", bad), ("good", good)] {
                corpora.write("recordings", &format!("{rule}-{kind}"), &[&CUTS, stream].concat())?;
            }
            Ok::<(), io::Error>(())
        };
        match rule.entry().example {
            Example::Stream { bad, good } | Example::Answer { bad, good, .. } | Example::Verified { bad, good } => {
                both(bad.as_bytes(), good.as_bytes())?;
            }
            Example::Frames { bad, good } => both(bad, good)?,
            Example::Answered { bad, good } => both(bad.body, good.body)?,
            Example::Timed { bad, good } => {
                let joined = |pieces: &[(u64, &str)]| pieces.iter().map(|(_, bytes)| *bytes).collect::<String>();
                both(joined(bad).as_bytes(), joined(good).as_bytes())?;
            }
            Example::Input { bad, good } => {
                corpora.write("json_events", &format!("{rule}-bad"), bad.as_bytes())?;
                corpora.write("json_events", &format!("{rule}-good"), good.as_bytes())?;
            }
        }
    }
    Ok(())
}

fn walks(corpora: &mut Corpora) -> io::Result<()> {
    for seed in 0..WALKS {
        let events = walk::mixed(&walk::stream(seed), &mut Dice::new(seed));
        let name = format!("walk-{seed:02}");
        let (mut sse, mut frames) = (CUTS.to_vec(), [&CUTS[..], &[1]].concat());
        for (index, event) in events.iter().enumerate() {
            SseEncoder::encode_event(&mut sse, Some(&format!("{index}.0")), &event.to_string());
            let event = Event::from_value(event.clone())?;
            ProtoEncoder::encode_event(&mut frames, &event).map_err(io::Error::other)?;
        }
        SseEncoder::encode_retry(&mut sse, 1000);
        SseEncoder::encode_comment(&mut sse, "keep-alive");
        corpora.write("sse", &name, &sse)?;
        corpora.write("proto_frames", &name, &frames)?;
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let array = Value::from(events).to_string();
        let recording = match seed % 4 {
            0 => sse,
            1 => [&CUTS[..], &frames[4..]].concat(),
            2 => [&CUTS, array.as_bytes()].concat(),
            _ => [&CUTS, lines.as_bytes()].concat(),
        };
        corpora.write("recordings", &name, &recording)?;
    }
    Ok(())
}

/// Each kind of event by itself, and rows of them by chance.
fn sequences(corpora: &mut Corpora) -> io::Result<()> {
    for kind in 0..34 {
        corpora.write("sequences", &format!("kind-{kind:02}"), &[kind, 0, 0, kind, 0x21, 0xff, 1, 0, 0])?;
    }
    let mut dice = Dice::new(0);
    for row in 0..WALKS {
        let length = 3 * (1 + dice.below(20));
        let bytes: Vec<u8> = (0..length).map(|_| dice.below(256) as u8).collect();
        corpora.write("sequences", &format!("row-{row:02}"), &bytes)?;
    }
    Ok(())
}

/// Frames of every type, and a log that is one.
fn logs(corpora: &mut Corpora) -> io::Result<()> {
    let entries = [
        (
            "run.start",
            "null",
            r#"{"agent_id":"demo","agent_revision_id":null,"session_id":"s","lane":null,"trigger_kind":"api","attempt":1}"#,
        ),
        ("run.status", "null", r#"{"status":"running","previous":"queued"}"#),
        ("segment.start", r#""seg_1""#, r#"{"kind":"message","name":"m","group_key":"g","model_ref":"r"}"#),
        ("text.delta", r#""seg_1""#, r#"{"text":"Hello","agui":{"metadata":{"a":1}}}"#),
        (
            "segment.end",
            r#""seg_1""#,
            r#"{"status":"completed","duration_ms":3,"usage":{"provider":"p","input_tokens":1},"cost":{"currency":"USD","amount":"0.1"},"finish_reason":"stop"}"#,
        ),
        ("segment.start", r#""seg_2""#, r#"{"kind":"reasoning","name":"r"}"#),
        ("thinking.delta", r#""seg_2""#, r#"{"text":"hm"}"#),
        ("segment.end", r#""seg_2""#, r#"{"status":"completed","duration_ms":3}"#),
        ("segment.start", r#""seg_3""#, r#"{"kind":"tool","name":"t","parent_segment_id":"seg_1","tool_slug":"t"}"#),
        ("tool.call", r#""seg_3""#, r#"{"tool_call_id":"c","tool_slug":"t","arguments_delta":"{}"}"#),
        ("tool.call", r#""seg_3""#, r#"{"tool_call_id":"c","tool_slug":"t","arguments":"{}"}"#),
        (
            "tool.result",
            r#""seg_3""#,
            r#"{"tool_call_id":"c","ok":true,"output_preview":"x","truncated":false,"bytes":1}"#,
        ),
        ("segment.end", r#""seg_3""#, r#"{"status":"failed","duration_ms":3,"error":"e"}"#),
        (
            "suspend",
            "null",
            r#"{"kind":"approval","resume_contract":{"interrupts":[]},"prompt":"?","deadline_at":"2030-01-01T00:00:00.000Z"}"#,
        ),
        ("run.status", "null", r#"{"status":"suspended","previous":"running"}"#),
        ("resume", "null", r#"{"kind":"approval","resolved_by":"me"}"#),
        ("run.status", "null", r#"{"status":"running","previous":"suspended"}"#),
        ("notice", "null", r#"{"level":"info","code":"agui.RAW","message":"m","attributes":{"a":[1.5,null]}}"#),
        ("error", "null", r#"{"code":"MODEL_ERROR","message":"m","retryable":true}"#),
        ("run.status", "null", r#"{"status":"failed","previous":"running"}"#),
        (
            "run.end",
            "null",
            r#"{"status":"failed","usage":[{"provider":"p","model":"m","total_tokens":1}],"cost":null,"duration_ms":3,"failure_class":"MODEL_ERROR","failure_detail":"d"}"#,
        ),
    ];
    let frame = |(index, (name, segment, data)): (usize, (&str, &str, &str))| {
        let seq = index + 1;
        format!(
            r#"{{"protocol":2,"seq":{seq},"run_id":"run_1","ts":"2026-11-29T21:18:00.123Z","type":"{name}","segment_id":{segment},"data":{data}}}"#
        )
    };
    let log: Vec<String> = entries.into_iter().enumerate().map(frame).collect();
    for (index, frame) in log.iter().enumerate() {
        corpora.write("frame_logs", &format!("frame-{index:02}"), frame.as_bytes())?;
    }
    corpora.write("frame_logs", "log", log.join("\n").as_bytes())
}
