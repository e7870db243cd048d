//! Prices and limits, from the configuration to what a client and an operator see.

use serde_json::{Value, json};

use crate::program::run;
use crate::serving::Serving;

const CONFIG: &str = r#"
[prices]
currency = "EUR"

[[prices.models]]
model = "demo"
input = "1.5"
output = "2"

[agents.free]
driver = "demo"
pace = "0ms"

[agents.frugal]
driver = "demo"
pace = "0ms"
limits = { model_calls = 1 }
"#;

fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn ended(server: &Serving, agent: &str) -> Value {
    let http = http();
    let body = json!({ "agent_id": agent, "prompt": "one two three" });
    let created: Value = http.post(server.at("/v2/runs")).json(&body).send().await.unwrap().json().await.unwrap();
    let stream = server.at(&format!("/v2/runs/{}/stream", created["run_id"].as_str().unwrap()));
    // Ends when the run does.
    http.get(stream).send().await.unwrap().text().await.unwrap();
    http.get(server.at(&format!("/v2/runs/{}", created["run_id"].as_str().unwrap())))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_run_says_what_it_cost_and_one_at_its_limit_is_cancelled_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), CONFIG).await;

    let free = ended(&server, "free").await;
    assert_eq!(free["status"], "completed");
    let usage = &free["usage"][0];
    let (input, output) = (usage["input_tokens"].as_u64().unwrap(), usage["output_tokens"].as_u64().unwrap());
    // Half a millionth is the smallest part that there is here.
    let halves = 3 * input + 4 * output;
    let amount = format!("0.{:07}", halves * 5);
    let amount = amount.strip_suffix('0').unwrap_or(&amount);
    assert_eq!(free["cost"], json!({ "currency": "EUR", "amount": amount }));

    let frugal = ended(&server, "frugal").await;
    assert_eq!(frugal["status"], "cancelled");
    let run_id = frugal["run_id"].as_str().unwrap();
    let events = http().get(server.at(&format!("/v2/runs/{run_id}/agui"))).send().await.unwrap().text().await.unwrap();
    assert!(events.contains("\"runwire.limit\"") && events.contains("\"BUDGET_EXCEEDED\""), "{events}");
    assert!(events.contains("\"cancelled\""), "{events}");

    // A person is told by the command line.
    let tail = run(folder.path(), &["tail", run_id, "--server", server.url()]).await;
    assert!(tail.stdout.contains("BUDGET_EXCEEDED") || tail.stderr.contains("BUDGET_EXCEEDED"), "{tail:?}");
}
