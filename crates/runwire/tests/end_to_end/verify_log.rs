//! `runwire verify-log`: a store that is consistent is called so, also after a kill at any moment, and each kind of damage
//! is found. And `runwire runs prune`, with the retention that a server does by itself.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;

use crate::program::run;
use crate::serving::{AGENTS, Serving};

/// An agent whose runs have some thousand frames and end soon.
const BULK: &str = "\n[agents.bulk]\ndriver = \"demo\"\npace = \"0ms\"\nrepeat = 6000\n";

async fn findings(folder: &Path, code: i32) -> Vec<Value> {
    let done = run(folder, &["verify-log", "--json"]).await.exits(code);
    let report: Value = serde_json::from_str(done.stdout.trim()).unwrap();
    let findings = report["findings"].as_array().unwrap().clone();
    assert_eq!(report["consistent"], findings.is_empty());
    findings
}

async fn ended(server: &Serving, agent: &str) -> String {
    let run_id = server.create(agent).await;
    server.wait_for(&run_id, |frame| frame.data.frame_type().as_str() == "run.end").await;
    run_id
}

/// A store with a long run, packed, and a short one, in rows.
async fn store(folder: &Path) -> (String, String) {
    let server = Serving::start(folder, &format!("{AGENTS}{BULK}")).await;
    let long = ended(&server, "bulk").await;
    let short = ended(&server, "demo").await;
    let raw = Connection::open(folder.join("runwire.db")).unwrap();
    server
        .patiently("the long run to be packed", async || {
            let left: i64 = raw.query_row("SELECT count(*) FROM upkeep", [], |row| row.get(0)).unwrap();
            (left == 0).then_some(())
        })
        .await;
    drop(raw);
    run(folder, &["verify-log"]).await.could_not(&["in use by another process"]);
    server.kill().await;
    (long, short)
}

#[tokio::test]
async fn each_kind_of_damage_is_found_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let (long, short) = store(folder.path()).await;
    assert_eq!(findings(folder.path(), 0).await, Vec::<Value>::new());
    let whole = folder.path().join("whole.db");
    let path = folder.path().join("runwire.db");
    Connection::open(&path).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    std::fs::copy(&path, &whole).unwrap();
    let row = |run_id: &str| format!("(SELECT id FROM runs WHERE run_id = '{run_id}')");
    let (l, s) = (row(&long), row(&short));
    // What is done to the store; the run, the frame and words of the finding.
    let cases: Vec<(String, Option<&str>, Option<u64>, &str)> = vec![
        (format!("DELETE FROM frames WHERE run = {s} AND seq = 7"), Some(&short), Some(7), "8 stands where 7"),
        (format!("DELETE FROM frames WHERE run = {s} AND seq = 1"), Some(&short), Some(1), "2 stands where 1"),
        (
            format!("DELETE FROM frames WHERE run = {s} AND seq = (SELECT head FROM runs WHERE id = {s})"),
            Some(&short),
            None,
            "the log ends with frame",
        ),
        (format!("INSERT INTO frames VALUES ({l}, 5, x'7b7d')"), Some(&long), None, "5 stands where"),
        (format!("UPDATE frames SET body = x'7b7d' WHERE run = {s} AND seq = 3"), Some(&short), Some(3), "no frame"),
        (
            format!(
                "UPDATE frames SET body = (SELECT body FROM frames WHERE run = {s} AND seq = 4) WHERE run = {s} AND seq = 5"
            ),
            Some(&short),
            Some(5),
            "says that it is frame 4",
        ),
        (
            format!(
                "UPDATE frames SET body = CAST(replace(CAST(body AS TEXT), '{short}', '{long}') AS BLOB) WHERE run = {s} AND seq = 4"
            ),
            Some(&short),
            Some(4),
            "is of the run",
        ),
        (
            format!(
                "UPDATE frames SET body = CAST(replace(CAST(body AS TEXT), '\"running\"', '\"failed\"') AS BLOB) WHERE run = {s} AND seq = 2"
            ),
            Some(&short),
            Some(2),
            "no legal transition",
        ),
        (format!("DELETE FROM pages WHERE run = {l} AND first > 1"), Some(&long), None, "missing from the packed"),
        (format!("UPDATE pages SET sse = zeroblob(10) WHERE run = {l} AND first = 1"), Some(&long), Some(1), "damaged"),
        (format!("UPDATE pages SET last = last + 1 WHERE run = {l} AND first = 1"), Some(&long), Some(1), "damaged"),
        (format!("UPDATE runs SET packed = packed - 1 WHERE id = {l}"), Some(&long), None, "the page goes to frame"),
        (format!("UPDATE runs SET head = head + 1 WHERE id = {s}"), Some(&short), None, "the log ends with frame"),
        (format!("UPDATE runs SET status = 'failed' WHERE id = {s}"), Some(&short), None, "status is failed"),
        (format!("UPDATE runs SET attempt = 2 WHERE id = {l}"), Some(&long), None, "attempt is 2"),
        (format!("UPDATE runs SET started_at = 1 WHERE id = {s}"), Some(&short), None, "started_at is 1"),
        (format!("UPDATE runs SET ended_at = ended_at + 1 WHERE id = {s}"), Some(&short), None, "ended_at is"),
        (format!("UPDATE runs SET ended_at = NULL WHERE id = {s}"), Some(&short), None, "ended_at is not there"),
        (format!("UPDATE runs SET bytes = bytes + 1 WHERE id = {s}"), Some(&short), None, "its size is noted"),
        (format!("UPDATE runs SET removed_at = 1 WHERE id = {s}"), Some(&short), None, "nobody will delete"),
        (format!("DELETE FROM runs WHERE id = {s}"), None, None, "belong to no run"),
        (format!("DELETE FROM inputs WHERE run = {s}"), Some(&short), None, "input is not there"),
        (format!("DELETE FROM exchanges WHERE run = {s}"), Some(&short), None, "no exchange names it"),
        ("INSERT INTO exchanges VALUES ('s', 'e', 99, '')".to_owned(), None, None, "names a run that is not there"),
        ("INSERT INTO sessions VALUES ('s', NULL, 1, 1)".to_owned(), None, None, "session s has no run"),
        (
            format!("DELETE FROM sessions WHERE session_id = (SELECT session_id FROM runs WHERE id = {s})"),
            Some(&short),
            None,
            "its session",
        ),
        (
            format!("INSERT INTO payloads VALUES (9999, {s}, 'seg_99', 'text/plain', x'00')"),
            Some(&short),
            None,
            "the payload of seg_99 belongs to no result",
        ),
    ];
    for (damage, run_id, seq, words) in cases {
        std::fs::copy(&whole, &path).unwrap();
        let changed = Connection::open(&path).unwrap().execute(&damage, []).unwrap();
        assert!(changed > 0, "{damage}");
        // Seen only when one of them is not found.
        eprintln!("{damage}");
        let found = findings(folder.path(), 1).await;
        let is_it = |finding: &&Value| {
            finding["run_id"].as_str() == run_id
                && (seq.is_none() || finding["seq"].as_u64() == seq)
                && finding["what"].as_str().unwrap().contains(words)
        };
        assert!(found.iter().any(|finding| is_it(&finding)), "{damage}\n{found:#?}");
    }

    // Damage below SQL, and what is no store.
    // A page that is in use: what is in a freed one is nobody's.
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'frames'";
    let page: u32 = Connection::open(&whole).unwrap().query_row(root, [], |row| row.get(0)).unwrap();
    let page = page as usize;
    let mut bytes = std::fs::read(&whole).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let found = findings(folder.path(), 1).await;
    assert!(found[0]["what"].as_str().unwrap().starts_with("SQLite"), "{found:?}");
    std::fs::write(&path, "no store at all").unwrap();
    assert!(findings(folder.path(), 1).await[0]["what"].as_str().unwrap().contains("damaged"));
    run(folder.path(), &["verify-log", "--store", "nothing.db"]).await.could_not(&["there is no store"]);
    assert!(!folder.path().join("nothing.db.lock").exists());
}

#[tokio::test]
async fn a_payload_that_is_not_what_its_result_says_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (_, short) = store(folder.path()).await;
    let path = folder.path().join("runwire.db");
    let raw = Connection::open(&path).unwrap();
    // The demo agent's results are small, so one of them is made larger than its preview, in the frame alone at first.
    let result =
        "run = (SELECT id FROM runs WHERE run_id = ?1) AND CAST(body AS TEXT) LIKE '%\"type\":\"tool.result\"%'";
    let cut = format!(
        "UPDATE frames SET body = CAST(replace(CAST(body AS TEXT), '\"truncated\":false', '\"truncated\":true') AS BLOB) WHERE {result}"
    );
    assert_eq!(raw.execute(&cut, [&short]).unwrap(), 1);
    let body: String = raw
        .query_row(&format!("SELECT CAST(body AS TEXT) FROM frames WHERE {result}"), [&short], |row| row.get(0))
        .unwrap();
    let frame: Value = serde_json::from_str(&body).unwrap();
    let (segment, bytes) = (frame["segment_id"].as_str().unwrap(), frame["data"]["bytes"].as_u64().unwrap());
    let only = async |words: &str| {
        let found = findings(folder.path(), 1).await;
        assert!(
            found.iter().any(|f| f["run_id"] == *short && f["what"].as_str().unwrap().contains(words)),
            "{found:?}"
        );
    };
    only("the whole of it is not there").await;
    let payload = "INSERT INTO payloads (run, segment_id, content_type, bytes)
        VALUES ((SELECT id FROM runs WHERE run_id = ?1), ?2, 'text/plain', zeroblob(?3))";
    raw.execute(payload, (&short, segment, bytes as i64 + 1)).unwrap();
    only(&format!("and its result says {bytes}")).await;
    // Nothing but the size that the record notes is wrong when both agree.
    raw.execute("UPDATE payloads SET bytes = zeroblob(?1)", [bytes as i64]).unwrap();
    let found = findings(folder.path(), 1).await;
    assert!(found.iter().all(|f| f["what"].as_str().unwrap().contains("its size is noted")), "{found:?}");
}

#[tokio::test]
async fn after_a_kill_in_the_middle_of_packing_and_removing_the_store_is_consistent_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{AGENTS}{BULK}");
    for round in 0..5_u64 {
        let server = Serving::start(folder.path(), &config).await;
        let run_id = server.create("bulk").await;
        let other = server.create("bulk").await;
        server.wait_for(&run_id, |frame| frame.data.frame_type().as_str() == "run.end").await;
        // Packing begins now. Every other round all runs that have ended are removed meanwhile.
        if round % 2 == 1 {
            run(folder.path(), &["runs", "prune", "--older-than", "0s", "--server", server.url()]).await.exits(0);
        }
        tokio::time::sleep(Duration::from_millis(round * 5)).await;
        server.kill().await;
        let found = findings(folder.path(), 0).await;
        assert!(found.is_empty(), "round {round}: {found:?}");
        drop(other);
    }
    // What was left to do is done by the next server.
    let server = Serving::start(folder.path(), &config).await;
    let raw = Connection::open(folder.path().join("runwire.db")).unwrap();
    server
        .patiently("everything to be tidied up", async || {
            let left: i64 = raw.query_row("SELECT count(*) FROM upkeep", [], |row| row.get(0)).unwrap();
            (left == 0).then_some(())
        })
        .await;
    drop(raw);
    server.kill().await;
    assert!(findings(folder.path(), 0).await.is_empty());
}

#[tokio::test]
async fn runs_prune_says_what_it_would_remove_and_then_removes_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let first = ended(&server, "demo").await;
    let live = server.create("long").await;
    let at = ["--server", server.url()];
    let dry =
        run(folder.path(), &[&["runs", "prune", "--older-than", "0s", "--dry-run"][..], &at].concat()).await.exits(0);
    assert!(dry.stdout.contains(&first) && dry.stdout.contains("1 run would be removed"), "{}", dry.stdout);
    assert!(!dry.stdout.contains(&live), "it has not ended");
    let nothing = run(folder.path(), &[&["runs", "prune"][..], &at].concat()).await.exits(0);
    assert_eq!(nothing.stdout, "0 runs removed\n", "no retention is configured");
    let other = ["runs", "prune", "--older-than", "0s", "--agent", "other"];
    assert_eq!(run(folder.path(), &[&other[..], &at].concat()).await.exits(0).stdout, "0 runs removed\n");
    let json =
        run(folder.path(), &[&["runs", "prune", "--older-than", "0s", "--json"][..], &at].concat()).await.exits(0);
    assert_eq!(json.json_lines()[0]["removed"], 1);
    assert_eq!(json.json_lines()[0]["runs"][0]["run_id"], *first);
    run(folder.path(), &[&["tail", &first][..], &at].concat()).await.could_not(&["removed by retention"]);
    let wrong = run(folder.path(), &[&["runs", "prune", "--agent", "demo"][..], &at].concat()).await;
    assert!(wrong.exits(2).stderr.contains("--older-than"));
}

#[tokio::test]
async fn a_server_removes_what_its_retention_does_not_keep_when_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(ended(&server, "demo").await);
    }
    server.kill().await;
    let config = format!("[retention]\nmax_runs = 1\n{AGENTS}");
    let server = Serving::start(folder.path(), &config).await;
    server
        .patiently("the older two to be removed", async || {
            let kept = server.client().runs(&runwire_client::RunFilter::default()).await.unwrap().runs;
            (kept.len() == 1).then(|| assert_eq!(kept[0].run_id(), runs[2]))
        })
        .await;
    server.kill().await;
    assert!(findings(folder.path(), 0).await.is_empty());
}
