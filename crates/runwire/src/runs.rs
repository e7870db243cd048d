//! `runwire runs`

use std::io::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use runwire_client::{RunFilter, RunRecord};
use serde_json::{Value, json};

use crate::cli::RunsArgs;
use crate::exit::Exit;
use crate::follow::server;
use crate::plain::Plain;

/// Lists runs.
pub async fn run(args: RunsArgs) -> anyhow::Result<Exit> {
    let filter = RunFilter {
        agent_id: args.agent,
        session_id: args.session,
        parent_run_id: args.parent,
        status: args.status,
        limit: Some(args.limit),
        before: None,
    };
    let page = server(&args.server)?.runs(&filter).await?;
    let mut out = io::stdout().lock();
    if args.server.json {
        writeln!(out, "{}", json!({ "runs": page.runs, "next": page.next }))?;
        return Ok(Exit::Done);
    }
    if page.runs.is_empty() {
        writeln!(out, "no runs")?;
        return Ok(Exit::Done);
    }
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let header = ["RUN", "AGENT", "STATUS", "FRAMES", "AGE", "TOOK", "SESSION"].map(str::to_owned);
    let mut rows = vec![header];
    rows.extend(page.runs.iter().map(|run| row(run, now)));
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    if page.next.is_some() {
        writeln!(out, "… and more; --limit shows up to 1000")?;
    }
    Ok(Exit::Done)
}

fn row(run: &RunRecord, now: i64) -> [String; 7] {
    let millis = |key: &str| run.members().get(key).and_then(Value::as_i64);
    let created = millis("created_at").unwrap_or(now);
    let took = match (millis("started_at"), millis("ended_at")) {
        (Some(start), end) => span(end.unwrap_or(now) - start),
        (None, _) => "-".to_owned(),
    };
    [
        Plain(run.run_id()).to_string(),
        Plain(run.agent_id().unwrap_or("-")).to_string(),
        run.status().to_string(),
        run.head().to_string(),
        span(now - created),
        took,
        Plain(run.session_id().unwrap_or("-")).to_string(),
    ]
}

/// A stretch of time, for a person.
fn span(millis: i64) -> String {
    let millis = millis.max(0);
    match millis {
        0..10_000 => format!("{}.{}s", millis / 1000, millis % 1000 / 100),
        10_000..120_000 => format!("{}s", millis / 1000),
        120_000..7_200_000 => format!("{}m", millis / 60_000),
        7_200_000..172_800_000 => format!("{}h", millis / 3_600_000),
        _ => format!("{}d", millis / 86_400_000),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn spans_have_one_unit() {
        let cases =
            [(-5, "0.0s"), (1234, "1.2s"), (61_000, "61s"), (150_000, "2m"), (7_200_000, "2h"), (200_000_000, "2d")];
        for (millis, text) in cases {
            assert_eq!(span(millis), text);
        }
    }
}
