//! What Runwire sends where it is the client, and the binding it asks for: `driver = "agui"` and `runwire check URL`
//! (basic/run-input; basic/processing, "Outgoing material"; transports/http-protobuf).

use runwire_frame::{Data, Frame};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::program::run;
use crate::serving::{AGENTS, Serving};

/// Passes one connection on to this address, and gives what went there and what came back.
async fn wiretapped(target: String) -> (String, JoinHandle<(Vec<u8>, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let tap = tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(target).await.unwrap();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::join!(copied(from_client, to_server), copied(from_server, to_client))
    });
    (address, tap)
}

async fn copied(mut from: tokio::net::tcp::OwnedReadHalf, mut to: tokio::net::tcp::OwnedWriteHalf) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        all.extend_from_slice(&piece[..read]);
        if to.write_all(&piece[..read]).await.is_err() {
            break;
        }
    }
    all
}

/// The run's log, once it has ended.
async fn log(server: &Serving, agent: &str) -> Vec<Frame> {
    let run_id = server.create(agent).await;
    server.wait_for(&run_id, |frame| matches!(frame.data, Data::RunEnd(_))).await;
    server.log_of(&run_id).await.iter().map(|body| Frame::decode(body.as_bytes()).unwrap()).collect()
}

/// What was said, to whom nothing of it was shown as an error, and how it ended.
fn told(log: &[Frame]) -> (String, String) {
    let text = log.iter().filter_map(|frame| match &frame.data {
        Data::TextDelta(delta) => Some(delta.text.as_str()),
        _ => None,
    });
    let Some(Data::RunEnd(end)) = log.last().map(|frame| &frame.data) else { panic!("{log:?}") };
    (text.collect(), end.status.to_string())
}

#[tokio::test]
async fn a_real_server_upstream_is_read_in_protobuf_like_in_server_sent_events() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Serving::start(folder.path(), AGENTS).await;
    let address = upstream.url().strip_prefix("http://").unwrap().to_owned();
    let mut logs = Vec::new();
    for (binding, accept, content_type) in [
        ("sse", "accept: text/event-stream\r\n", "content-type: text/event-stream"),
        (
            "protobuf",
            "accept: application/vnd.ag-ui.event+proto, text/event-stream\r\n",
            "content-type: application/vnd.ag-ui.event+proto\r\n",
        ),
    ] {
        let (tapped, tap) = wiretapped(address.clone()).await;
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "[agents.front]\ndriver = \"agui\"\nurl = \"http://{tapped}/agui/demo\"\nbinding = \"{binding}\"\n"
        );
        let front = Serving::start(folder.path(), &config).await;
        logs.push(told(&log(&front, "front").await));
        // The connection is kept for a next request, and ends with the server that made it.
        front.kill().await;
        let (sent, came) = tap.await.unwrap();
        let (sent, came) =
            (String::from_utf8_lossy(&sent).to_lowercase(), String::from_utf8_lossy(&came).to_lowercase());
        assert!(sent.contains(accept), "{binding}: {sent}");
        assert!(sent.contains("\"protocolversion\":\"1.0\""), "{sent}");
        assert!(came.contains(content_type), "{binding}: {came}");
    }
    assert_eq!(logs[0], logs[1]);
    let (text, ending) = &logs[1];
    assert!(text.contains("Your prompt has"), "{text}");
    assert_eq!(ending, "completed");
}

#[tokio::test]
async fn an_agent_that_is_configured_to_be_older_is_sent_no_version_and_a_real_server_takes_it_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Serving::start(folder.path(), AGENTS).await;
    let (tapped, tap) = wiretapped(upstream.url().strip_prefix("http://").unwrap().to_owned()).await;
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[agents.front]\ndriver = \"agui\"\nurl = \"http://{tapped}/agui/demo\"\nprotocol_version = \"0.0.57\"\n"
    );
    let front = Serving::start(folder.path(), &config).await;
    assert_eq!(told(&log(&front, "front").await).1, "completed");
    front.kill().await;
    let (sent, _) = tap.await.unwrap();
    let sent = String::from_utf8(sent).unwrap();
    assert!(!sent.contains("protocolVersion") && sent.contains("\"tools\":[]"), "{sent}");
}

#[tokio::test]
async fn check_sends_nothing_of_an_input_that_must_not_be_sent_and_says_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/agent", listener.local_addr().unwrap());
    let entry = json!({ "interruptId": "i1", "status": "resolved" });
    for (input, says) in [
        ("{".to_owned(), vec!["is not JSON"]),
        (json!([]).to_string(), vec!["malformed at /", "an object"]),
        (
            json!({ "threadId": "t", "runId": 5, "messages": [] }).to_string(),
            vec!["malformed at /runId", "a string", "the number 5"],
        ),
        (
            json!({ "threadId": "t", "runId": "r", "messages": [], "resume": [entry, entry] }).to_string(),
            vec!["'i1' twice"],
        ),
    ] {
        std::fs::write(folder.path().join("input.json"), input).unwrap();
        let done = run(folder.path(), &["check", &url, "--input", "input.json"]).await;
        done.could_not(&[&["--input input.json"], &says[..]].concat());
    }
    let nobody = tokio::time::timeout(std::time::Duration::from_millis(50), listener.accept()).await;
    assert!(nobody.is_err(), "no connection was made");
}

#[tokio::test]
async fn check_says_what_was_stripped_of_an_input_and_sends_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Serving::start(folder.path(), AGENTS).await;
    let mut input = json!({ "threadId": "t", "runId": "r", "mood": "fine", "messages": [
        { "id": "u", "role": "user", "content": "hi", "font": "red" },
        { "id": "a", "role": "activity", "activityType": "search", "content": {} },
        { "id": "c", "role": "assistant", "toolCalls": [
            { "id": "c1", "type": "function", "function": { "name": "pick", "arguments": "{}" } },
        ] },
    ], "tools": [{ "name": "pick", "description": "d" }] });
    let sent = async |input: &Value, args: &[&str]| {
        std::fs::write(folder.path().join("input.json"), input.to_string()).unwrap();
        let (tapped, tap) = wiretapped(upstream.url().strip_prefix("http://").unwrap().to_owned()).await;
        let url = format!("http://{tapped}/agui/demo");
        let done = run(folder.path(), &[&["check", &url, "--input", "input.json", "--json"], args].concat()).await;
        let (sent, _) = tap.await.unwrap();
        let sent = String::from_utf8(sent).unwrap();
        let body: Value = serde_json::from_str(sent.split_once("\r\n\r\n").unwrap().1).unwrap();
        (done.exits(0), body)
    };
    let (done, body) = sent(&input, &[]).await;
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{}", done.stderr);
    for (line, says) in lines.iter().zip(["/mood", "/messages/0/font", "'c1' of the frontend tool 'pick'"]) {
        assert!(line.starts_with("runwire: --input input.json: ") && line.contains(says), "{line}");
    }
    let mut expected = input.clone();
    expected.as_object_mut().unwrap().remove("mood");
    expected["messages"][0].as_object_mut().unwrap().remove("font");
    expected["messages"].as_array_mut().unwrap().remove(1);
    expected["protocolVersion"] = "1.0".into();
    assert_eq!(body, expected);
    input["runId"] = "r2".into();
    let (done, body) = sent(&input, &["--protocol-version", "0.0.57"]).await;
    assert_eq!(body.get("protocolVersion"), None);
    assert_eq!(done.json_lines()[0]["outcome"], "completed");
    let nonsense = run(folder.path(), &["check", "http://127.0.0.1:1/", "--protocol-version", "0.1.9"]).await;
    nonsense.could_not(&["\"0.1.9\" is no AG-UI version", "\"0.0.57\""]);
}
