//! An agent that exists already, behind the `agui` driver: it sees one ordinary AG-UI request, and whatever it answers,
//! the run's log is legal, what clients are sent conforms, and a failure says whose it is.

#![allow(clippy::unwrap_used, missing_docs)]

mod again;
#[path = "../fixture/mod.rs"]
mod fixture;
mod interrupts;
mod outgoing;
mod protobuf;
mod rejected;
mod relayed;
mod server;
mod transport;
mod unattended;

use std::time::Duration;

use fixture::{Bed, Log, driven_by, input, request};
use runwire_engine::drivers::{AguiDriver, AguiOptions};
use serde_json::{Value, json};
use server::{Answer, Server};

/// The thread and the run that the tests ask for.
const THREAD: &str = "thread-1";
const RUN: &str = "run-1";

/// An engine in front of the upstream agent at this address.
fn front(url: String) -> Bed {
    front_with(AguiOptions::new(url))
}

fn front_with(options: AguiOptions) -> Bed {
    // Fails when another test of this process was first, which is as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    fixture::bed([driven_by("upstream", AguiDriver::new(options).unwrap())])
}

/// Options under which silence fails a run soon, and an answer that is there at once is in time on a busy machine too.
fn impatient(url: String) -> AguiOptions {
    AguiOptions { idle_timeout: Duration::from_secs(2), ..AguiOptions::new(url) }
}

/// Starts the run and gives its id.
async fn ask(bed: &Bed) -> String {
    bed.create(request("upstream", input(THREAD, RUN))).await.unwrap().record.run_id
}

/// The log of the run that this answer makes.
async fn log_of(answer: Answer) -> Log {
    let server = Server::start(move |_, _| answer.clone()).await;
    let bed = front(server.url());
    let log = bed.ended(&ask(&bed).await).await;
    assert_eq!(server.seen().len(), 1, "one request, never repeated");
    log
}

fn run_started() -> Value {
    json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": RUN })
}

fn run_finished() -> Value {
    json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN })
}

/// A whole message of this text: three events.
fn message(id: &str, text: &str) -> Vec<Value> {
    vec![
        json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": id }),
    ]
}

/// The events of a run up to its last but one: it has started and said "Kept."
fn underway() -> Vec<Value> {
    let mut events = vec![run_started()];
    events.extend(message("m-kept", "Kept."));
    events
}

fn with(mut events: Vec<Value>, more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    events.extend(more);
    events
}

/// The run failed by a fault of the channel, its client was told so, and what it had said is still there.
fn assert_channel_error(log: &Log, kept: &str, told: &[&str]) {
    let (code, message, _) = log.error();
    assert_eq!((log.ending(), code), ("failed", "CHANNEL_ERROR"), "{}", log.dump());
    assert_eq!(log.failure_class(), Some("CHANNEL_ERROR"));
    for part in told {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
    assert_eq!(log.text(), kept, "what was delivered before stays");
    let last = log.last_event();
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("CHANNEL_ERROR")));
    assert_eq!(last["message"], message);
}
