//! The viewer's page of a run's frames in Chromium: a log of a hundred thousand frames, one that goes on, one that a checker
//! has something to say about, one that means harm. No page may write an error to its console, break its own policy or ask
//! another host for anything.

use std::path::Path;

use runwire_client::RunFilter;
use runwire_frame::{Frame, LogValidator};
use runwire_store::{Append, Created, NewFrame, NewRun, RunUpdate, Store, StoreOptions};
use serde_json::{Value, json};

use crate::real_part::{self, script};
use crate::serving::{AGENTS, Serving};

/// Does what the scenario says, and checks that nothing went wrong in any of its pages.
async fn page(server: &Serving, scenario: &str, run_id: &str) -> Value {
    let args = ["--url", server.url(), "--scenario", scenario, "--run", run_id, "--timeout", "50"];
    let told = script("viewer-frames.mjs", &args).await;
    let nothing = json!({ "console": [], "exceptions": [], "policy": [], "elsewhere": [] });
    assert_eq!(told["wrong"], nothing, "{told:#}");
    told
}

/// A log as it is written by hand: legal, and as long and as odd as a test wants it.
struct Log {
    run_id: &'static str,
    frames: Vec<String>,
}

impl Log {
    fn begin(run_id: &'static str) -> Log {
        let mut log = Log { run_id, frames: Vec::new() };
        log.add(
            "run.start",
            None,
            json!({
                "agent_id": "demo", "agent_revision_id": null, "session_id": "s", "lane": null, "trigger_kind": null,
                "attempt": 1,
            }),
        );
        log.add("run.status", None, json!({ "status": "running", "previous": "queued" }));
        log
    }

    fn len(&self) -> usize {
        self.frames.len()
    }

    fn add(&mut self, kind: &str, segment: Option<&str>, data: Value) {
        let (seq, run_id) = (self.len() + 1, self.run_id);
        // The keys have an order, which an object of JSON would not keep for another reader of it.
        let ms = seq * 2;
        let ts = format!("2026-11-30T10:{:02}:{:02}.{:03}Z", ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        let segment = json!(segment);
        let body = format!(
            r#"{{"protocol":2,"seq":{seq},"run_id":"{run_id}","ts":"{ts}","type":"{kind}","segment_id":{segment},"data":{data}}}"#
        );
        self.frames.push(body);
    }

    /// A message that comes in so many pieces.
    fn message(&mut self, pieces: usize) {
        let id = format!("seg_{}", self.len() + 1);
        self.add("segment.start", Some(&id), json!({ "kind": "message", "name": "assistant" }));
        for n in 0..pieces {
            self.add("text.delta", Some(&id), json!({ "text": format!("piece {n} of {id} ") }));
        }
        self.add("segment.end", Some(&id), json!({ "status": "completed", "duration_ms": 1 }));
    }

    fn custom(&mut self, name: &str, value: &Value) {
        let event = json!({ "type": "CUSTOM", "name": name, "value": value });
        let data = json!({ "level": "info", "code": "agui.CUSTOM", "message": "an event", "attributes": event });
        self.add("notice", None, data);
    }

    fn state_delta(&mut self, patch: &Value) {
        let event = json!({ "type": "STATE_DELTA", "delta": patch });
        let data = json!({ "level": "info", "code": "agui.STATE_DELTA", "message": "an event", "attributes": event });
        self.add("notice", None, data);
    }

    fn end(mut self) -> Log {
        self.add("run.status", None, json!({ "status": "completed", "previous": "running" }));
        let end = json!({ "status": "completed", "usage": null, "cost": null, "duration_ms": 1 });
        self.add("run.end", None, end);
        let mut validator = LogValidator::new();
        for body in &self.frames {
            validator.push(&Frame::decode(body.as_bytes()).unwrap()).unwrap();
        }
        validator.finish().unwrap();
        self
    }

    fn text(&self, seq: usize) -> &str {
        &self.frames[seq - 1]
    }

    fn kind(&self, seq: usize) -> String {
        let frame: Value = serde_json::from_str(self.text(seq)).unwrap();
        frame["type"].as_str().unwrap().to_owned()
    }
}

/// Puts runs with these logs into the store that a server in this folder will have.
async fn put(folder: &Path, logs: &[&Log]) {
    let path = folder.join("runwire.db");
    let store =
        tokio::task::spawn_blocking(move || Store::open(&path, StoreOptions::default())).await.unwrap().unwrap();
    for log in logs {
        let new = NewRun {
            run_id: log.run_id.into(),
            agent_id: "demo".into(),
            session_id: format!("s_{}", log.run_id),
            exchange_id: format!("e_{}", log.run_id),
            input_digest: String::new(),
            lane: "default".into(),
            status: "running".into(),
            created_at: 1_796_033_000_000,
            principal: None,
            trigger_kind: "api".into(),
            agent_revision_id: None,
            parent_run_id: None,
            metadata: Value::Null,
            input: Value::Null,
        };
        assert!(matches!(store.create_run(new).await.unwrap(), Created::New(_)));
        let mut appender = store.take_ownership(log.run_id).await.unwrap();
        let frames: Vec<NewFrame> =
            (1..).zip(&log.frames).map(|(seq, body)| NewFrame { seq, body: body.clone().into() }).collect();
        let last = frames.len().div_ceil(10_000);
        for (n, some) in frames.chunks(10_000).enumerate() {
            let ended = RunUpdate {
                status: Some("completed".into()),
                ended_at: Some(1_796_033_100_000),
                ..RunUpdate::default()
            };
            let update = (n + 1 == last).then_some(ended);
            appender.enqueue(Append { frames: some.to_vec(), update, payloads: Vec::new() }).unwrap();
            appender.progress().flush().await.unwrap();
        }
    }
    store.close();
}

/// A hundred thousand frames, of which every hundredth is a notice.
fn long() -> Log {
    let mut log = Log::begin("run_long");
    while log.len() < 99_900 {
        log.message(97);
        log.custom("example.step", &json!({ "at": log.len() }));
    }
    while log.len() < 99_998 {
        log.custom("example.last", &json!(log.len()));
    }
    log.end()
}

#[tokio::test]
async fn every_one_of_a_hundred_thousand_frames_is_reached_by_a_page_that_holds_a_screenful() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = long();
    assert_eq!(log.len(), 100_000);
    put(folder.path(), &[&log]).await;
    let server = Serving::start(folder.path(), AGENTS).await;
    let told = page(&server, "long", log.run_id).await;
    println!("the longest task took {} ms; {} MB of heap", told["longestTaskMs"], told["heapMb"]);

    // Wherever a person goes, the frame is the one that was asked for, and its text the one that was recorded.
    let visited = told["visited"].as_array().unwrap();
    assert!(visited.len() >= 8, "{told:#}");
    for place in visited {
        let seq = place["seq"].as_u64().unwrap() as usize;
        assert_eq!(place["title"].as_str().unwrap().replace(',', ""), format!("Frame {seq} · {}", log.kind(seq)));
        assert_eq!(place["text"], log.text(seq), "{seq}");
        assert!(place["isVisible"] == true, "{place}");
    }
    // By type: a list that a person scrolls through from its beginning to its end leaves none out.
    let notices: Vec<usize> = (1..=log.len()).filter(|seq| log.kind(*seq) == "notice").collect();
    assert_eq!(told["notices"], json!(notices));
    assert_eq!(told["filteredAddress"], "type=notice");
    // By text, as it was said.
    let found: Vec<usize> = (1..=log.len()).filter(|seq| log.text(*seq).contains("piece 96 of seg_5")).collect();
    assert_eq!(told["found"], json!(found));
    assert!(!found.is_empty());

    let nodes: Vec<u64> = told["nodes"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert!(nodes.iter().all(|nodes| *nodes < 3000), "the page holds what is seen: {nodes:?}");
}

#[tokio::test]
async fn a_run_that_goes_on_is_followed_at_its_end_and_nothing_moves_under_who_looks_back() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = server.create("long").await;
    let told = page(&server, "live", &run_id).await;
    assert_eq!(told["begins"], json!({ "following": "true", "lastIsSeen": true }), "{told:#}");
    assert_eq!(told["looksBack"]["before"], told["looksBack"]["after"], "{told:#}");
    assert_eq!(told["looksBack"]["following"], "false", "{told:#}");
    assert_eq!(told["again"], json!({ "following": "true", "lastIsSeen": true }), "{told:#}");
    assert_eq!(
        (&told["checkedLive"], &told["status"]),
        (&json!("Nothing is wrong so far."), &json!("cancelled")),
        "{told:#}"
    );
    let log = server.log_of(&run_id).await;
    assert_eq!(told["frames"], log.len(), "{told:#}");
    let seqs: Vec<u64> = told["last"].as_array().unwrap().iter().map(|seq| seq.as_u64().unwrap()).collect();
    assert_eq!(seqs.last(), Some(&(log.len() as u64)), "{told:#}");
    assert!(server.client().runs(&RunFilter::default()).await.unwrap().runs.len() == 1);
}

/// A log whose events conform and could be better, and of which one cannot be told.
fn odd() -> Log {
    let mut log = Log::begin("run_odd");
    log.custom("progress", &json!(0.5));
    log.message(3);
    log.state_delta(&json!([{ "op": "remove", "path": "/nothing" }]));
    let again = json!({ "type": "RUN_STARTED", "threadId": "s", "runId": "another" });
    let data = json!({ "level": "info", "code": "agui.CUSTOM", "message": "an event", "attributes": again });
    log.add("notice", None, data);
    log.end()
}

#[tokio::test]
async fn what_a_checker_says_leads_to_the_event_the_frame_and_the_page_of_the_rule() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &[&odd()]).await;
    let server = Serving::start(folder.path(), AGENTS).await;
    let told = page(&server, "findings", "run_odd").await;
    assert_eq!(told["outcome"], "A client takes it all.", "{told:#}");
    assert_eq!(told["rules"], json!(["unprefixed-name", "patch-not-applied"]), "{told:#}");
    for page in told["pages"].as_array().unwrap() {
        assert!(page.as_str().unwrap().starts_with("https://docs.ag-ui.com/spec/1.0/"), "{told:#}");
    }
    assert_eq!(told["tab"], "Check 3", "two findings, and an event that cannot be told: {told:#}");
    assert_eq!(told["event"]["title"], "Event 9.0 · STATE_DELTA", "{told:#}");
    assert_eq!((&told["event"]["frames"], &told["event"]["tab"]), (&json!(["9"]), &json!("AG-UI events")), "{told:#}");
    assert_eq!(told["frame"], json!({ "title": "Frame 9 · notice", "links": ["9.0"] }), "{told:#}");
    assert_eq!(told["leftOut"], "Frame 10 · notice", "{told:#}");
    assert_eq!(told["marks"], json!({ "3": "advice", "9": "warning", "10": "warning" }), "{told:#}");
}

/// A log of an agent that would rather be the page than be on it.
fn hostile() -> Log {
    let mut log = Log::begin("run_hostile");
    let markup = "<img src=x onerror=\"globalThis.harmed=1\"><script>globalThis.harmed=1</script><b>bold</b>";
    log.custom(
        markup,
        &json!({ markup: [markup, "javascript:globalThis.harmed=1", { "__proto__": { "harmed": 1 } }] }),
    );
    log.custom("example.rtl", &json!("\u{202e}desrever\u{2066}\u{0007}\u{200b}\u{e0041}"));
    log.custom("example.huge", &json!("x".repeat(3_000_000)));
    log.custom("example.wide", &json!("\u{fdfd}".repeat(2000)));
    let deep = (0..90).fold(json!("bottom"), |inside, _| json!([inside]));
    log.custom("example.deep", &deep);
    log.custom("example.many", &json!((0..20_000).collect::<Vec<_>>()));
    log.add("notice", None, json!({ "level": "warning", "code": markup, "message": markup }));
    log.end()
}

#[tokio::test]
async fn what_a_log_holds_stays_text_and_in_its_place() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &[&hostile()]).await;
    let server = Serving::start(folder.path(), AGENTS).await;
    let told = page(&server, "hostile", "run_hostile").await;
    assert_eq!((&told["harmed"], &told["strangeElements"]), (&Value::Null, &json!(0)), "{told:#}");
    assert_eq!(told["overflow"], json!([0, 0]), "{told:#}");
    assert_eq!(told["hidden"], json!(["U+202E", "U+2066", "U+0007", "U+200B", "U+E0041"]), "{told:#}");
    assert_eq!(told["opened"], 11, "{told:#}");
    assert!(told["nodes"].as_u64().unwrap() < 3000, "what is folded is not there: {told:#}");
    assert_eq!(told["wholeText"].as_u64().unwrap(), 3_000_000, "on demand it is there whole: {told:#}");
}

#[tokio::test]
async fn the_page_is_used_by_the_keyboard_alone_and_has_nothing_that_axe_objects_to() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::begin("run_keys");
    (0..30).for_each(|_| log.message(5));
    log.custom("progress", &json!(1));
    let log = log.end();
    put(folder.path(), &[&log]).await;
    let server = Serving::start(folder.path(), AGENTS).await;
    let told = page(&server, "keyboard", log.run_id).await;
    assert_eq!(told["violations"], json!([]), "{told:#}");
    assert_eq!(told["overflow"], json!([0, 0, 0]), "{told:#}");
    let last = log.len();
    let expected = json!({
        "down": "Frame 3", "end": format!("Frame {last}"), "home": "Frame 1", "page": true,
        "events": "Event 1.0", "check": true, "filtered": "30 of", "jumped": "Frame 7", "address": "?seq=7",
        "told": (last - 2).to_string(),
        "back": "type=segment.start",
    });
    assert_eq!(told["keys"], expected, "{told:#}");
}
