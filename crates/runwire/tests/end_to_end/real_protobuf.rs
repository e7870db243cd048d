//! The binary binding against the released `@ag-ui/proto`, and the released client that reads it.

use runwire_agui::Event;
use runwire_agui::proto::{MEDIA_TYPE, ProtoDecoder, ProtoEncoder, ProtoEvent};
use serde_json::{Value, json};

use crate::real_part::{self, agui_client, events, last, script, taken_quietly};
use crate::serving::{AGENTS, Serving};

/// Each of the 31 events, once with its required members only and once with every member there is.
fn samples() -> Vec<Value> {
    let pairs: Vec<Value> = serde_json::from_str(include_str!("../../../agui/tests/samples/events.json")).unwrap();
    assert_eq!(pairs.len(), 31);
    pairs.into_iter().flat_map(|pair| [pair["bare"].clone(), pair["full"].clone()]).collect()
}

/// What of an event the binary form carries: it has no place for a patch's further members, and cannot leave out a list
/// of the input.
fn narrowed(mut event: Value) -> Value {
    for patch in ["delta", "patch"] {
        for operation in event.get_mut(patch).and_then(Value::as_array_mut).into_iter().flatten() {
            operation.as_object_mut().unwrap().retain(|member, _| ["op", "path", "from", "value"].contains(&&**member));
        }
    }
    if let Some(input) = event.get_mut("input").and_then(Value::as_object_mut) {
        for list in ["tools", "context", "resume"] {
            input.entry(list).or_insert_with(|| json!([]));
        }
    }
    event
}

fn frame(sample: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    ProtoEncoder::encode_event(&mut out, &Event::from_value(sample.clone()).unwrap()).unwrap();
    out
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|place| u8::from_str_radix(&hex[place..place + 2], 16).unwrap()).collect()
}

#[tokio::test]
async fn the_released_package_reads_every_event_that_is_written_here() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("frames");
    let samples = samples();
    std::fs::write(&file, samples.iter().flat_map(frame).collect::<Vec<u8>>()).unwrap();
    let read = script("proto.mjs", &["--decode", file.to_str().unwrap()]).await;
    assert_eq!((&read["unknown"], &read["partial"], &read["warnings"]), (&json!(0), &json!(false), &json!([])));
    let expected: Vec<Value> = samples.into_iter().map(narrowed).collect();
    for (read, expected) in events(&read).iter().zip(&expected) {
        assert_eq!(read, expected);
    }
    assert_eq!(events(&read).len(), expected.len());
}

#[tokio::test]
async fn every_event_that_the_released_package_writes_is_read_here_and_is_the_same_bytes() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.json");
    let samples = samples();
    std::fs::write(&file, json!(samples).to_string()).unwrap();
    let written = script("proto.mjs", &["--encode", file.to_str().unwrap()]).await;
    assert_eq!(written["warnings"], json!([]));
    let messages = written["messages"].as_array().unwrap();
    assert_eq!(messages.len(), samples.len());
    for (message, sample) in messages.iter().zip(samples) {
        let message = bytes(message.as_str().unwrap());
        let length = u32::try_from(message.len()).unwrap();
        let theirs = [&length.to_be_bytes()[..], &message].concat();
        assert_eq!(frame(&sample), theirs, "every encoder writes the same bytes: {sample}");
        let read = ProtoDecoder::new(1 << 20).push(&theirs);
        assert_eq!(read, [Ok(ProtoEvent::Event(narrowed(sample)))]);
    }
}

#[tokio::test]
async fn the_released_package_reads_a_run_and_it_is_the_run_that_server_sent_events_tell() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let message = json!({ "id": "u", "role": "user", "content": "One two three" });
    let input = json!({
        "threadId": "t", "runId": "r", "protocolVersion": "1.0", "messages": [message], "tools": [], "context": []
    });
    let url = server.at("/agui/demo");
    let posted = script("proto.mjs", &["--url", &url, "--body", &input.to_string()]).await;
    assert_eq!(posted["headers"]["content-type"], MEDIA_TYPE, "{posted:#}");
    assert_eq!((&posted["ended"], &posted["partial"], &posted["warnings"]), (&json!(true), &json!(false), &json!([])));
    assert_eq!(last(&posted)["type"], "RUN_FINISHED");

    let followed_url = server.at(&format!("/v2/runs/{}/agui", posted["headers"]["runwire-run-id"].as_str().unwrap()));
    let followed = script("proto.mjs", &["--url", &followed_url]).await;
    assert_eq!(followed["events"], posted["events"]);

    let sse = script("agui-raw.mjs", &["--url", &followed_url]).await;
    let told: Vec<Value> = events(&sse)
        .iter()
        .map(|event| serde_json::from_str(event["data"].as_str().unwrap()).unwrap())
        .map(|event| whole_numbers_whole(narrowed(event)))
        .collect();
    assert_eq!(json!(told), posted["events"]);
}

/// JavaScript writes `0.0` as `0`, which is the same number.
fn whole_numbers_whole(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 => json!(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(elements) => elements.into_iter().map(whole_numbers_whole).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, whole_numbers_whole(value))).collect(),
        other => other,
    }
}

#[tokio::test]
async fn the_released_client_makes_the_same_of_a_run_in_both_bindings() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let url = server.at("/agui/demo");
    let asked = ["--thread", "t", "--run", "r", "--prompt", "One two three"];
    let accept = format!("text/event-stream, {MEDIA_TYPE}");
    let binary = agui_client("1.0.0", &url, &[&asked[..], &["--accept", &accept]].concat()).await;
    assert_eq!(binary["contentType"], MEDIA_TYPE);
    taken_quietly(&binary);
    assert_eq!(last(&binary)["type"], "RUN_FINISHED");

    let sse = agui_client("1.0.0", &url, &asked).await;
    assert_eq!(sse["contentType"], "text/event-stream", "what the client asks for by itself");
    taken_quietly(&sse);
    let told: Vec<Value> = events(&sse).iter().cloned().map(narrowed).collect();
    assert_eq!(json!(told), binary["events"]);
    for held in ["messages", "state", "result"] {
        assert_eq!(sse[held], binary[held], "{held}");
    }
}
