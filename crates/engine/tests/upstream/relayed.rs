//! Streams that conform.

use std::time::{Duration, Instant};

use runwire_agui::{Event, RunAgentInput};
use runwire_engine::drivers::AguiOptions;
use runwire_frame::{Data, RunStatus};
use serde_json::{Value, json};

use crate::fixture::{Log, input, patiently, request};
use crate::server::{Answer, Server, Step, lines};
use crate::{
    RUN, THREAD, ask, assert_channel_error, front, front_with, log_of, message, run_finished, run_started, underway,
    with,
};

#[tokio::test]
async fn the_upstream_agent_sees_one_ordinary_agui_request() {
    let server = Server::start(|_, _| Answer::events(&with(underway(), [run_finished()]))).await;
    let mut options = AguiOptions::new(format!("{}?tenant=7", server.url()));
    options.headers = vec![("Authorization".into(), "Bearer secret".into()), ("X-Trace".into(), "abc".into())];
    let bed = front_with(options);
    let whole = json!({
        "threadId": THREAD,
        "runId": RUN,
        "messages": [
            { "id": "m1", "role": "user", "content": "How are you?" },
            { "id": "m2", "role": "assistant", "toolCalls": [
                { "id": "c1", "type": "function", "function": { "name": "look", "arguments": "{}" } },
            ] },
            { "id": "m3", "role": "tool", "toolCallId": "c1", "content": "fine" },
        ],
        "protocolVersion": "1.0",
        "parentRunId": "run-0",
        "state": { "n": 1, "deep": [{ "é": null }] },
        "tools": [{ "name": "look", "description": "Looks.", "parameters": { "type": "object" } }],
        "context": [{ "description": "where", "value": "here" }],
        "forwardedProps": { "temperature": 0.2 },
    });
    let (input, warnings) = RunAgentInput::decode(whole.to_string().as_bytes()).unwrap();
    assert_eq!(warnings, []);
    let started = bed.create(request("upstream", input)).await.unwrap();
    let log = bed.ended(&started.record.run_id).await;
    assert_eq!(log.ending(), "completed");

    let [seen] = &server.seen()[..] else { panic!("one request") };
    assert_eq!(seen.method, "POST");
    assert_eq!(seen.uri, "/agent?tenant=7");
    assert_eq!(seen.body, whole);
    let header = |name: &str| seen.headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!(header("accept"), Some("text/event-stream"));
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("authorization"), Some("Bearer secret"));
    assert_eq!(header("x-trace"), Some("abc"));
    let mut names: Vec<&str> = seen.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    let known = ["accept", "authorization", "content-length", "content-type", "host", "user-agent", "x-trace"];
    assert_eq!(names, known, "nothing of this server's own");

    let Data::RunStart(start) = &log.frames[0].data else { panic!("run.start comes first") };
    assert_eq!(start.extra["agui"]["input"], whole, "the input is echoed as it came");
    assert!(!log.dump().contains("secret"), "a header is nobody's business");
}

/// Everything that a run can hold.
fn rich() -> Vec<Value> {
    let mut events = vec![
        json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": RUN, "timestamp": 7 }),
        json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": 1 } }),
        json!({ "type": "STEP_STARTED", "stepName": "think" }),
        json!({ "type": "REASONING_START", "messageId": "r1" }),
        json!({ "type": "REASONING_MESSAGE_START", "messageId": "r1", "role": "reasoning" }),
        json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": "r1", "delta": "Hm." }),
        json!({ "type": "REASONING_MESSAGE_END", "messageId": "r1" }),
        json!({ "type": "REASONING_END", "messageId": "r1" }),
    ];
    events.extend(message("m1", "Grüße, 👋\n\"world\""));
    events.extend([
        json!({ "type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look", "parentMessageId": "m1" }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"at\":" }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "1}" }),
        json!({ "type": "TOOL_CALL_END", "toolCallId": "c1" }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "x".repeat(5000), "role": "tool" }),
        json!({ "type": "STATE_DELTA", "delta": [{ "op": "replace", "path": "/n", "value": 2 }] }),
        json!({ "type": "CUSTOM", "name": "ping", "value": [1, null] }),
        json!({ "type": "RAW", "event": { "vendor": 1 } }),
        json!({ "type": "STEP_FINISHED", "stepName": "think" }),
        json!({
            "type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN, "result": { "ok": true },
            "usage": [{ "provider": "p", "model": "m", "inputTokens": 3, "outputTokens": 4, "totalTokens": 7 }],
        }),
    ]);
    events
}

/// What a client is sent, without what this server adds to a run's start.
fn told(log: &Log) -> Vec<Value> {
    let mut events: Vec<Value> = log.events.iter().map(Event::to_value).collect();
    for key in ["protocolVersion", "input"] {
        events[0].as_object_mut().unwrap().remove(key);
    }
    events
}

#[tokio::test]
async fn a_conforming_stream_is_relayed_without_loss() {
    let log = log_of(Answer::events(&rich())).await;
    assert_eq!(log.ending(), "completed");
    assert_eq!(told(&log), rich());
    assert!(!log.has_error());
}

#[tokio::test]
async fn any_line_end_comments_ids_and_pieces_of_one_byte_make_no_difference() {
    for line_end in ["\n", "\r\n", "\r"] {
        let mut stream = format!("\u{feff}: hello{line_end}{line_end}retry: 250{line_end}").into_bytes();
        for (number, event) in rich().iter().enumerate() {
            let (first, second) =
                event.to_string().split_once(',').map(|(a, b)| (format!("{a},"), b.to_owned())).unwrap();
            let text = format!(
                "event: message{line_end}id: {number}{line_end}: keep-alive{line_end}data: {first}{line_end}\
                 data:{second}{line_end}unknown: 1{line_end}{line_end}"
            );
            stream.extend(text.into_bytes());
        }
        let whole = log_of(Answer::stream(stream.clone())).await;
        assert_eq!(told(&whole), rich(), "{line_end:?}");
        let bytes = stream.iter().map(|byte| Step::Bytes(vec![*byte])).collect();
        let pieces = log_of(Answer::steps(bytes)).await;
        assert_eq!(told(&pieces), rich(), "{line_end:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_may_be_cut_in_two_at_any_byte() {
    fn stream(thread: &str) -> Vec<u8> {
        let mut events = vec![json!({ "type": "RUN_STARTED", "threadId": thread, "runId": RUN })];
        events.extend(message("m1", "Kept — ünd whole."));
        events.push(json!({ "type": "RUN_FINISHED", "threadId": thread, "runId": RUN }));
        lines(&events, "\r\n")
    }
    let server = Server::start(|number, seen| {
        let stream = stream(seen.body["threadId"].as_str().unwrap());
        let (first, second) = stream.split_at(number);
        Answer::steps(vec![Step::Bytes(first.to_vec()), Step::Bytes(second.to_vec())])
    })
    .await;
    let bed = front(server.url());
    for number in 0..=stream("thread-000").len() {
        let started = bed.create(request("upstream", input(&format!("thread-{number:03}"), RUN))).await.unwrap();
        let log = bed.ended(&started.record.run_id).await;
        assert_eq!((log.ending(), log.text().as_str()), ("completed", "Kept — ünd whole."), "cut at {number}");
    }
}

#[tokio::test]
async fn chunks_are_expanded_before_they_reach_the_log() {
    let chunks = [
        json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "delta": "In " }),
        json!({ "type": "TEXT_MESSAGE_CHUNK", "delta": "pieces." }),
        json!({ "type": "TOOL_CALL_CHUNK", "toolCallId": "c1", "toolCallName": "look", "delta": "{" }),
        json!({ "type": "TOOL_CALL_CHUNK", "delta": "}" }),
    ];
    let log = log_of(Answer::events(&with(with(vec![run_started()], chunks), [run_finished()]))).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "In pieces."));
    assert_eq!(log.event_types()[..2], ["RUN_STARTED", "TEXT_MESSAGE_START"]);
    let types = log.event_types();
    for closed in ["TEXT_MESSAGE_END", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"] {
        assert!(types.contains(&closed), "{types:?}");
    }
    assert!(types.iter().all(|t| !t.ends_with("_CHUNK")), "{types:?}");
}

#[tokio::test]
async fn earlier_runs_that_are_replayed_make_no_runs_here_and_their_snapshots_come_first() {
    let history =
        json!({ "type": "MESSAGES_SNAPSHOT", "messages": [{ "id": "old", "role": "user", "content": "Hi" }] });
    let mut events = vec![json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": "earlier" }), history.clone()];
    events.extend(message("m-old", "Said then."));
    events.extend([
        json!({ "type": "CUSTOM", "name": "mood", "value": "good" }),
        json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": 1 } }),
        json!({ "type": "STATE_DELTA", "delta": [{ "op": "replace", "path": "/n", "value": 2 }] }),
        json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": "earlier" }),
        json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": "failed-earlier" }),
        json!({ "type": "RUN_ERROR", "message": "that one failed" }),
    ]);
    let goes_on = json!({ "type": "STATE_DELTA", "delta": [
        { "op": "test", "path": "/n", "value": 2 }, { "op": "add", "path": "/m", "value": 1 }] });
    let log = log_of(Answer::events(&with(with(events, underway()), [goes_on, run_finished()]))).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "Kept."));
    assert_eq!(log.event_types()[..4], ["RUN_STARTED", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"]);
    let then = log.events[1].to_value();
    assert_eq!(then["messages"][0], history["messages"][0]);
    assert_eq!((&then["messages"][1]["id"], &then["messages"][1]["content"]), (&json!("m-old"), &json!("Said then.")));
    // What the user has just said is not taken away by the history in front of it.
    let whole = log.events[2].to_value();
    assert_eq!((&whole["messages"][1], &whole["messages"][2]["id"]), (&then["messages"][1], &json!("m1")));
    assert_eq!(log.events[3].to_value()["snapshot"], json!({ "n": 2 }));
    let codes: Vec<&str> = log.notices().iter().map(|(code, _)| *code).collect();
    let restated = ["agui.MESSAGES_SNAPSHOT", "agui.MESSAGES_SNAPSHOT", "agui.STATE_SNAPSHOT"];
    assert_eq!(codes[..4], [&restated[..], &["replayed_events_dropped"]].concat());
    assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Completed]);
}

/// A patch can nest a value deeper than an event could, and a frame has to be readable.
#[tokio::test]
async fn earlier_runs_that_come_to_more_than_a_frame_holds_fail_the_run() {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let events = [
        json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": "earlier" }),
        json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": deep } }),
        json!({ "type": "STATE_DELTA", "delta": [{ "op": "add", "path": format!("/n{}", "/0".repeat(100)), "value": deep }] }),
        json!({ "type": "STATE_DELTA", "delta": [{ "op": "replace", "path": format!("/n{}", "/0".repeat(20)), "value": deep }] }),
        json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": "earlier" }),
        run_started(),
        run_finished(),
    ];
    let log = log_of(Answer::events(&events)).await;
    assert_channel_error(&log, "", &["replayed of earlier runs, as one STATE_SNAPSHOT, nests more than"]);
}

/// Each beginning may echo messages that no other has, and all of them are held until the requested run begins.
#[tokio::test]
async fn earlier_runs_whose_beginnings_come_to_too_much_fail_the_run() {
    let text = "x".repeat(15 << 20);
    let mut events = Vec::new();
    for number in 0..5 {
        let run_id = format!("earlier-{number}");
        let said = json!({ "id": format!("old-{number}"), "role": "user", "content": text });
        let input = json!({ "threadId": THREAD, "runId": run_id, "messages": [said], "tools": [], "context": [] });
        events.push(json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": run_id, "input": input }));
        events.push(json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": run_id }));
    }
    let log = log_of(Answer::events(&with(with(events, underway()), [run_finished()]))).await;
    assert_channel_error(&log, "", &["replayed more than 67108864 bytes of earlier runs"]);
}

#[tokio::test]
async fn a_stream_that_is_wrong_in_every_event_is_told_of_a_thousand_times_and_once_more() {
    let newer = vec![json!({ "type": "HOLOGRAM_STARTED" }); 1500];
    let log = log_of(Answer::events(&with(with(underway(), newer), [run_finished()]))).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "Kept."));
    let told: Vec<_> = log.notices().into_iter().filter(|(code, _)| *code == "upstream_warning").collect();
    assert_eq!(told.len(), 1001);
    assert!(
        told[999].1.contains("HOLOGRAM_STARTED") && told[1000].1.contains("the rest is not told"),
        "{:?}",
        &told[999..]
    );
}

/// "totalTokens is inputTokens plus outputTokens", also of what is summed per provider and model.
#[tokio::test]
async fn usage_that_an_agent_reports_in_pieces_adds_up_when_it_is_told() {
    let finished = json!({
        "type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN,
        "usage": [
            { "model": "m", "totalTokens": 10 },
            { "model": "m", "inputTokens": 5, "outputTokens": 5, "totalTokens": 10, "cachedInputTokens": 2 },
        ],
    });
    let log = log_of(Answer::events(&with(underway(), [finished]))).await;
    // How much of the first ten was input, nobody said.
    assert_eq!(log.last_event()["usage"], json!([{ "model": "m", "totalTokens": 20, "cachedInputTokens": 2 }]));
}

#[tokio::test]
async fn material_from_a_newer_version_is_dropped_with_a_warning_and_the_run_completes() {
    let newer = [
        json!({ "type": "HOLOGRAM_STARTED", "size": 3 }),
        json!({ "type": "CUSTOM", "name": "ping", "value": 1, "spin": "left" }),
    ];
    let log = log_of(Answer::events(&with(with(underway(), newer), [run_finished()]))).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "Kept."));
    let warnings: Vec<&str> =
        log.notices().into_iter().filter(|(code, _)| *code == "upstream_warning").map(|(_, message)| message).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("HOLOGRAM_STARTED"), "{warnings:?}");
    assert!(warnings[1].contains("/spin"), "{warnings:?}");
}

#[tokio::test]
async fn a_run_is_seen_from_its_upstream_start_on_and_while_it_streams() {
    let server = Server::start(|_, _| Answer::events_then(&underway(), Step::Hang)).await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.shows(&run_id, |frame| matches!(&frame.data, Data::TextDelta(delta) if delta.text == "Kept.")).await;
    assert_eq!(bed.record(&run_id).await.status, "running");
    patiently(bed.engine.shutdown(Duration::ZERO)).await;
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.text().as_str()), ("failed", "Kept."));
}

#[tokio::test]
async fn a_connection_that_stays_open_after_the_end_of_the_run_does_not_keep_the_run_open() {
    let log = log_of(Answer::events_then(&with(underway(), [run_finished()]), Step::Hang)).await;
    assert_eq!(log.ending(), "completed");
    let alive = [Step::Wait(Duration::from_millis(100)), Step::Bytes(b": still here\n\n".to_vec())];
    let mut steps = vec![Step::Bytes(lines(&with(underway(), [run_finished()]), "\n"))];
    steps.extend(alive.into_iter().cycle().take(10_000));
    let before = Instant::now();
    assert_eq!(log_of(Answer::steps(steps)).await.ending(), "completed");
    assert!(before.elapsed() < Duration::from_secs(30), "signs of life are none of the run's");
    let log = log_of(Answer::events_then(&with(underway(), [run_finished()]), Step::Reset)).await;
    assert_eq!(log.ending(), "completed", "how the connection ends says nothing about the run that ended in it");
}

#[tokio::test]
async fn the_run_that_an_upstream_agent_cancelled_is_neither_a_success_nor_a_failure() {
    let stopped = json!({
        "type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN, "outcome": { "type": "cancelled" },
    });
    let log = log_of(Answer::events(&with(underway(), [stopped]))).await;
    assert_eq!((log.ending(), log.text().as_str()), ("cancelled", "Kept."));
    assert!(!log.has_error());
    assert_eq!(log.last_event()["outcome"]["type"], "cancelled");
}

#[tokio::test]
async fn many_runs_of_one_upstream_agent_go_on_at_once() {
    let server = Server::start(|_, seen| {
        let (thread, run) = (&seen.body["threadId"], &seen.body["runId"]);
        let mut events = vec![json!({ "type": "RUN_STARTED", "threadId": thread, "runId": run })];
        events.extend(message("m1", thread.as_str().unwrap()));
        events.push(json!({ "type": "RUN_FINISHED", "threadId": thread, "runId": run }));
        Answer::steps(events.iter().map(|event| Step::Bytes(lines(std::slice::from_ref(event), "\n"))).collect())
    })
    .await;
    let bed = front(server.url());
    let mut runs = Vec::new();
    for number in 0..30 {
        let thread = format!("thread-{number}");
        let started = bed.create(request("upstream", input(&thread, RUN))).await.unwrap();
        runs.push((started.record.run_id, thread));
    }
    for (run_id, thread) in runs {
        let log = bed.ended(&run_id).await;
        assert_eq!((log.ending(), log.text()), ("completed", thread));
    }
}
