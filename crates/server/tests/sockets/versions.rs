//! Clients of other versions (basic/versioning, "Version negotiation"): each is served, and the operator is told.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use runwire_agui::Event;
use serde_json::{Value, json};

use crate::harness::{Server, Setup, agui_events, consumed, soon};

/// What this process logged.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log of the whole process: tests that run beside this one write there as well.
fn logged() -> &'static Logged {
    static LOGGED: OnceLock<Logged> = OnceLock::new();
    LOGGED.get_or_init(|| {
        let logged = Logged::default();
        let writer = logged.clone();
        tracing_subscriber::fmt().json().with_writer(move || writer.clone()).init();
        logged
    })
}

/// Level and message of what was logged of a run about its client.
fn said_of_the_client(run_id: &str) -> Vec<(String, String)> {
    let logged = logged().0.lock().unwrap().clone();
    let lines = logged.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap());
    lines
        .filter(|line| line["fields"]["run_id"] == run_id)
        .filter_map(|line| {
            let message = line["fields"]["message"].as_str()?;
            let level = line["level"].as_str()?.to_owned();
            message.starts_with("the client").then(|| (level, message.to_owned()))
        })
        .collect()
}

/// The events that this input is answered with, and the run's id.
async fn answered(server: &Server, input: &Value) -> (String, Vec<Event>) {
    let request = server.post("/agui/demo", input).header("accept", "text/event-stream");
    let response = soon(request.send()).await.unwrap();
    assert_eq!(response.status(), 200, "no run is refused for its client's version");
    let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    let events = agui_events(&soon(response.text()).await.unwrap());
    (run_id, consumed(&events, Some(input)))
}

#[tokio::test]
async fn a_client_of_another_version_is_served_answered_in_this_one_and_mentioned_once_a_run() {
    logged();
    let server = Setup::new().start().await;
    let cases = [
        (Some("1.0"), None),
        (Some("1.7"), Some(("WARN", "newer than 1.0"))),
        (Some("2.0"), Some(("WARN", "newer than 1.0"))),
        (Some("next"), Some(("WARN", "\"next\""))),
        (Some(""), Some(("WARN", "not MAJOR.MINOR"))),
        (Some("0.9"), Some(("INFO", "older than 1.0"))),
        (None, Some(("INFO", "declares no protocol version"))),
    ];
    for (number, (declared, mentioned)) in cases.into_iter().enumerate() {
        let run = format!("r{number}");
        let message = json!({ "id": "m", "role": "user", "content": "Hello" });
        let mut input = json!({ "threadId": format!("t{number}"), "runId": run, "messages": [message] });
        if let Some(declared) = declared {
            input["protocolVersion"] = json!(declared);
        }
        let (run_id, events) = answered(&server, &input).await;
        let Some(Event::RunStarted(started)) = events.first() else { panic!("{events:?}") };
        assert_eq!(started.protocol_version.as_deref(), Some("1.0"), "its own version, never an echo");
        assert!(matches!(events.last(), Some(Event::RunFinished(_))), "{declared:?}");
        // The same request again re-attaches, and is not another run.
        let (again, _) = answered(&server, &input).await;
        assert_eq!(again, run_id);
        let said = said_of_the_client(&run_id);
        match mentioned {
            None => assert_eq!(said, []),
            Some((level, words)) => {
                assert_eq!(said.len(), 1, "{declared:?}: {said:?}");
                assert_eq!(said[0].0, level, "{said:?}");
                assert!(said[0].1.contains(words), "{said:?}");
            }
        }
    }
}
