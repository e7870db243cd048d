//! Logs that are hard to carry: every hard case of Unicode, a tool result of 10 MiB, very many frames.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use runwire_frame::{Data, Frame, RunStatus};
use serde_json::{Value, json};

use crate::agent::{Agent, message};
use crate::followers::{Follower, READERS, Reader, Truth, read};
use crate::proxy::{Ending, Line, Proxy};
use crate::serving::{Serving, client, http};
use crate::{scale, verified};

/// Texts that something on the way could break: as pieces, because some of them are broken only between two.
const HARD: &[&str] = &[
    // A family, joined by ZWJ and cut between its members; a flag cut between its letters; a skin tone without its hand.
    "👨\u{200D}",
    "👩\u{200D}👧",
    "\u{200D}👦",
    "🇩",
    "🇪",
    "👋",
    "🏿",
    // Combining marks without a letter before them, and many on one.
    "e",
    "\u{301}",
    "\u{323}\u{302}",
    "Z\u{351}\u{36B}\u{343}\u{36A}\u{302}\u{36B}",
    // Right to left, with marks, overrides and isolates that are never closed.
    "שלום \u{202E}abc",
    "\u{2067}ملف.txt",
    "\u{200F}\u{200E}\u{2069}",
    // What ends a line somewhere: in JavaScript, in Python's splitlines, in an SSE parser that is too eager.
    "a\u{2028}b\u{2029}c",
    "\u{85}\u{B}\u{C}\u{1C}\u{1D}\u{1E}",
    "one\ntwo\r\nthree\rfour\n\n",
    "data: x\n\nid: 9\n\n",
    // What ends a text somewhere, or begins one.
    "\0",
    "a\0b",
    "\u{FEFF}",
    "in\u{FEFF}side",
    "\u{1A}\u{4}\u{1B}[31m\u{7F}",
    // The borders of UTF-8 and UTF-16, noncharacters, private use, the replacement character itself.
    "\u{7F}\u{80}",
    "\u{7FF}\u{800}",
    "\u{D7FF}\u{E000}",
    "\u{FFFD}",
    "\u{FFFE}\u{FFFF}",
    "\u{10000}",
    "\u{10FFFF}\u{F0000}",
    // What JSON escapes, and what looks like an escape.
    "\"\\/\u{8}\t",
    "\\u0041",
    "\\ud83d",
    "</script><!--",
    "'\"&lt;",
    // Characters of four bytes in a row, at every place of a chunk's border.
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    " ",
    "x𐍈",
    "xx𐍈",
    "xxx𐍈",
    "İıſK",
    "Å",
    "ﬃ",
    "한글",
    "ก็",
    "\u{1F3F4}\u{E0067}\u{E0062}\u{E007F}",
];

/// The same JSON text, in ASCII alone.
fn in_ascii(json: &str) -> String {
    let mut ascii = String::new();
    for character in json.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hard_case_of_unicode_arrives_as_it_was_said() {
    // Bytes of the upstream agent come one by one, so that each character is cut at each of its borders.
    let agent = Agent::start(1, || {
        let deltas = HARD.iter().map(|text| (*text).to_owned());
        let plain = message("plain", deltas.clone());
        let escaped = message("escaped", deltas).into_iter().map(|event| in_ascii(&event));
        let custom =
            HARD.iter().map(|text| json!({"type": "CUSTOM", "name": text, "value": {*text: text}}).to_string());
        Box::new(plain.into_iter().chain(escaped).chain(custom))
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agent.configured("hard")).await;
    let run_id = server.create("hard").await;
    let said = HARD.concat();
    for reader in READERS {
        let proxy = Proxy::new(server.url(), || Line::OneByOne).await;
        let seen = read(&client(proxy.url()), &run_id, reader, Duration::from_secs(30), &AtomicUsize::new(0)).await;
        let truth = Truth::of(&server, &run_id).await;
        truth.holds(reader, &seen.all, "hard cases");
        let mut texts = String::new();
        let mut customs = Vec::new();
        for body in &seen.all {
            if reader == Reader::Agui {
                let event: Value = serde_json::from_str(body.split_once(' ').unwrap().1).unwrap();
                match event["type"].as_str().unwrap() {
                    "TEXT_MESSAGE_CONTENT" => texts.push_str(event["delta"].as_str().unwrap()),
                    "CUSTOM" => customs.push((event["name"].clone(), event["value"].clone())),
                    _ => {}
                }
            } else {
                match Frame::decode(body.as_bytes()).unwrap().data {
                    Data::TextDelta(delta) => texts.push_str(&delta.text),
                    Data::Notice(notice) if notice.code == "agui.CUSTOM" => {
                        let event = Value::from(notice.attributes.unwrap());
                        customs.push((event["name"].clone(), event["value"].clone()));
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(texts, format!("{said}{said}"), "{reader:?}");
        let expected: Vec<_> = HARD.iter().map(|text| (json!(text), json!({*text: text}))).collect();
        assert_eq!(customs, expected, "{reader:?}");
    }
    server.kill().await;
    verified(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_surrogate_pair_is_no_text_and_fails_the_run_in_words() {
    let agent = Agent::start(7, || {
        let mut events = message("m", ["Before.".to_owned(), "HALF".to_owned(), "After.".to_owned()]);
        events[2] = events[2].replace("HALF", "\\ud83d");
        Box::new(events.into_iter())
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agent.configured("half")).await;
    let run_id = server.create("half").await;
    for reader in READERS {
        let seen = read(&server.client(), &run_id, reader, Duration::from_secs(30), &AtomicUsize::new(0)).await;
        let truth = Truth::of(&server, &run_id).await;
        truth.holds(reader, &seen.all, "half a pair");
        let all = seen.all.concat();
        assert!(all.contains("Before.") && !all.contains("After."), "what came before stays: {all}");
    }
    let record = server.client().run(&run_id).await.unwrap();
    assert_eq!(record.status(), RunStatus::Failed);
    let failure = &record.members()["failure"];
    assert_eq!(failure["code"], "CHANNEL_ERROR", "{failure}");
    assert!(failure.to_string().contains("malformed-json"), "it says what is wrong: {failure}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_result_of_ten_mebibytes_is_whole_for_whoever_wants_it_whole_over_lines_that_are_cut_within_it() {
    let line = "the quick brown fox, \u{1F98A} and \u{2028} the rest; ";
    let content = line.repeat(10 * 1024 * 1024 / line.len() + 1);
    let said = content.clone();
    let agent = Agent::start(64 * 1024, move || {
        let call = |kind: &str, more: Value| {
            let mut event = json!({"type": kind, "toolCallId": "c1"});
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            event.to_string()
        };
        let mut events = vec![
            call("TOOL_CALL_START", json!({"toolCallName": "read_file"})),
            call("TOOL_CALL_ARGS", json!({"delta": "{}"})),
            call("TOOL_CALL_END", json!({})),
            call("TOOL_CALL_RESULT", json!({"messageId": "r1", "content": said})),
        ];
        events.extend(message("m", ["Read.".to_owned()]));
        Box::new(events.into_iter())
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agent.configured("large")).await;
    let run_id = server.create("large").await;
    server.wait_for(&run_id, |frame| frame.data.frame_type().as_str() == "run.end").await;
    let truth = Truth::of(&server, &run_id).await;
    for reader in READERS {
        let cut = |after, ending| Line::Cut { after, ending };
        let lines = [cut(3_000_000, Ending::Reset), cut(9_000_000, Ending::Close), cut(2500, Ending::Reset)];
        let proxy = Proxy::with(server.url(), lines).await;
        let seen = read(&client(proxy.url()), &run_id, reader, Duration::from_secs(30), &AtomicUsize::new(0)).await;
        truth.holds(reader, &seen.all, "a large result");
        if reader == Reader::Agui {
            assert!(proxy.cuts() == 3 && seen.losses == 3, "{} cuts", proxy.cuts());
            let results = seen.all.iter().filter_map(|event| {
                let event: Value = serde_json::from_str(event.split_once(' ').unwrap().1).unwrap();
                (event["type"] == "TOOL_CALL_RESULT").then(|| event["content"].as_str().unwrap().to_owned())
            });
            assert!(results.collect::<Vec<_>>() == [content.as_str()], "the whole result, once");
        }
    }
    let result = truth.frames.iter().find_map(|body| {
        let frame = Frame::decode(body.as_bytes()).unwrap();
        match frame.data {
            Data::ToolResult(ref result) => Some((frame.segment_id.clone().unwrap(), result.clone())),
            _ => None,
        }
    });
    let (segment, result) = result.unwrap();
    assert_eq!((result.truncated, result.bytes), (true, content.len() as u64));
    let payload = http(&server.at(&format!("/v2/runs/{run_id}/segments/{segment}/payload"))).await;
    assert!(payload == content, "the payload is the content");
    server.kill().await;
    verified(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_very_many_frames_is_read_live_and_later_from_any_of_them() {
    let frames: u64 = scale(8_000, 1_000_000);
    let agent = Agent::start(64 * 1024, move || {
        // Nothing joins these: each is a frame.
        Box::new((0..frames).map(|n| json!({"type": "CUSTOM", "name": "tick", "value": n}).to_string()))
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agent.configured("many")).await;
    let started = std::time::Instant::now();
    let run_id = server.create("many").await;
    let follow = |reader| Follower::of(server.client(), &run_id, reader, Duration::from_secs(40));
    let followers = [Reader::Sse, Reader::WebSocket].map(follow);
    let mut seen = Vec::new();
    for follower in followers {
        seen.push((follower.reader, follower.until(Duration::from_secs(1800)).await));
    }
    println!("{frames} frames live in {:?}", started.elapsed());
    let log = server.log_of(&run_id).await;
    assert!(log.len() as u64 > frames);
    for (reader, seen) in seen {
        assert!(seen.all == log, "{reader:?} has the log");
    }
    for after in [1, log.len() / 3, log.len() - 2] {
        let mut stream = server.client().follow(&run_id).after(after as u64).start();
        let first = loop {
            match futures_util::StreamExt::next(&mut stream).await.unwrap().unwrap() {
                runwire_client::Followed::Frame { body, .. } => break body,
                _ => continue,
            }
        };
        assert!(first == log[after].as_bytes(), "behind frame {after}");
    }
    server.kill().await;
    verified(folder.path()).await;
}
