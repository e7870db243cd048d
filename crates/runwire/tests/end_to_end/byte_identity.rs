//! G3: the body of a frame is the same bytes on SSE, on WebSocket, in pages and in every replay; and G2 across a change of
//! the transport. Read by a Node WebSocket client and a raw SSE reader, which know nothing of Runwire.

use runwire_frame::{Frame, LogValidator};
use serde_json::{Value, json};

use crate::real_part::{self, script};
use crate::serving::{AGENTS, Serving};

struct Readers<'a> {
    server: &'a Serving,
    run_id: &'a str,
}

impl Readers<'_> {
    async fn sse(&self, more: &[&str]) -> Value {
        let url = self.server.at(&format!("/v2/runs/{}/stream", self.run_id));
        script("sse-reader.mjs", &[&["--url", &url], more].concat()).await
    }

    async fn ws(&self, more: &[&str]) -> Value {
        let url = self.server.ws_at(&format!("/v2/runs/{}/ws", self.run_id));
        script("ws-reader.mjs", &[&["--url", &url], more].concat()).await
    }
}

fn of_sse(document: &Value) -> Vec<String> {
    document["frames"].as_array().unwrap().iter().map(|frame| frame["body"].as_str().unwrap().to_owned()).collect()
}

fn of_ws(document: &Value) -> Vec<String> {
    document["frames"].as_array().unwrap().iter().map(|body| body.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn frame_bodies_are_the_same_bytes_on_both_transports_live_and_later() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = server.create("medium").await;
    let readers = Readers { server: &server, run_id: &run_id };
    let (by_sse, by_ws) = tokio::join!(readers.sse(&[]), readers.ws(&[]));
    let bodies = of_sse(&by_sse);
    assert_eq!(bodies, of_ws(&by_ws), "live");

    let mut log = LogValidator::new();
    for body in &bodies {
        log.push(&Frame::decode(body.as_bytes()).unwrap()).unwrap();
    }
    log.finish().unwrap();
    for (i, frame) in by_sse["frames"].as_array().unwrap().iter().enumerate() {
        assert_eq!(frame["id"], (i + 1).to_string(), "an event's id is the frame's seq");
    }

    // How it ended, and what it was sent as.
    assert_eq!((&by_sse["ended"], &by_sse["partial"]), (&json!(true), &json!(false)), "{}", by_sse["error"]);
    assert_eq!(by_sse["headers"]["content-type"], "text/event-stream");
    assert_eq!(by_sse["headers"]["cache-control"], "no-cache, no-transform");
    assert_eq!(by_sse["headers"]["x-accel-buffering"], "no");
    assert!(by_sse["retry"].is_number());
    assert_eq!(by_ws["close"]["code"], 1000);
    assert_eq!(by_ws["binaryMessages"], 0);

    let (by_sse, by_ws) = tokio::join!(readers.sse(&[]), readers.ws(&[]));
    assert_eq!(of_sse(&by_sse), bodies, "read again");
    assert_eq!(of_ws(&by_ws), bodies, "read again");
    assert_eq!(server.log_of(&run_id).await, bodies, "in pages");

    server.kill().await;
    let server = Serving::start(folder.path(), AGENTS).await;
    let readers = Readers { server: &server, run_id: &run_id };
    let (by_sse, by_ws) = tokio::join!(readers.sse(&[]), readers.ws(&[]));
    assert_eq!(of_sse(&by_sse), bodies, "from another process");
    assert_eq!(of_ws(&by_ws), bodies, "from another process");
}

#[tokio::test]
async fn a_reader_that_loses_one_transport_goes_on_over_the_other_at_the_very_next_frame() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;

    // Live: the run goes on between the two connections.
    for first_is_sse in [true, false] {
        let run_id = server.create("medium").await;
        let readers = Readers { server: &server, run_id: &run_id };
        let before = if first_is_sse {
            of_sse(&readers.sse(&["--stop-after", "9"]).await)
        } else {
            of_ws(&readers.ws(&["--stop-after", "9"]).await)
        };
        assert_eq!(before.len(), 9);
        let after = if first_is_sse {
            of_ws(&readers.ws(&["--after", "9"]).await)
        } else {
            of_sse(&readers.sse(&["--last-event-id", "9"]).await)
        };
        assert_eq!([before, after].concat(), server.log_of(&run_id).await, "SSE first: {first_is_sse}");
    }

    // Finished: from any frame.
    let run_id = server.create("demo").await;
    let readers = Readers { server: &server, run_id: &run_id };
    let whole = of_sse(&readers.sse(&[]).await);
    for after in [0, 1, whole.len() / 2, whole.len() - 1] {
        let cursor = after.to_string();
        let (sse_args, ws_args) = (["--last-event-id", &cursor], ["--after", &cursor]);
        let (by_sse, by_ws) = tokio::join!(readers.sse(&sse_args), readers.ws(&ws_args));
        assert_eq!(of_sse(&by_sse), whole[after..], "after {after}");
        assert_eq!(of_ws(&by_ws), whole[after..], "after {after}");
    }
}

#[tokio::test]
async fn a_reader_that_has_everything_is_told_that_nothing_follows() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = server.create("demo").await;
    let readers = Readers { server: &server, run_id: &run_id };
    let head = of_ws(&readers.ws(&[]).await).len().to_string();
    let by_sse = readers.sse(&["--last-event-id", &head]).await;
    assert_eq!((&by_sse["status"], &by_sse["frames"]), (&json!(204), &json!([])), "G6: an EventSource stops at 204");
    let by_ws = readers.ws(&["--after", &head]).await;
    assert_eq!((&by_ws["close"]["code"], &by_ws["frames"]), (&json!(1000), &json!([])));

    // G7: a cursor that is not one of this run is no silence.
    let by_sse = readers.sse(&["--last-event-id", "9999"]).await;
    assert_eq!(by_sse["status"], 416);
    let problem: Value = serde_json::from_str(by_sse["text"].as_str().unwrap()).unwrap();
    assert_eq!(problem["head"].to_string(), head);
    let by_ws = readers.ws(&["--after", "9999"]).await;
    assert_eq!(by_ws["close"]["code"], 4401);
    let error: Value = serde_json::from_str(by_ws["frames"][0].as_str().unwrap()).unwrap();
    assert_eq!((&error["seq"], &error["data"]["code"]), (&json!(0), &json!("MALFORMED_FRAME")));
    assert_eq!(error["data"]["head"].to_string(), head);
}
