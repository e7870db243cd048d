//! Removing runs that have ended.

use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::runs::{ApiError, ask};

/// Which runs to remove. Runs that have not ended never are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneRuns {
    /// Those that ended at least so long ago; without it, those that the server's configured retention does not keep.
    pub older_than: Option<Duration>,
    /// Only those of this agent; with `older_than`.
    pub agent_id: Option<String>,
    /// Say which, and remove none.
    pub dry_run: bool,
}

/// What one request removed, or would remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedRuns {
    /// Whether nothing was removed because that was asked for.
    pub dry_run: bool,
    /// How many were removed.
    pub removed: u64,
    /// Which were, or would be; the first of them if there are more.
    pub runs: Vec<PrunedRun>,
    /// Whether there are more, for another request.
    pub more: bool,
    /// What was found before anything was removed.
    pub found: FoundRuns,
}

/// How much there is to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRuns {
    /// How many runs.
    pub runs: u64,
    /// The bytes of their frame bodies, payloads and inputs.
    pub bytes: u64,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedRun {
    /// The run.
    pub run_id: String,
    /// Its agent.
    pub agent_id: String,
    /// When it ended, in milliseconds since the Unix epoch.
    pub ended_at: i64,
    /// How many frames it had.
    pub head: u64,
    /// The bytes of its frame bodies, payloads and input.
    pub bytes: u64,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    older_than_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'a str>,
    dry_run: bool,
}

impl Server {
    /// Removes runs that have ended, up to a thousand: ask again while there are [more](PrunedRuns::more). Dropping the
    /// future leaves open whether they were removed.
    ///
    /// # Errors
    /// [`ApiError`]; status 403 when the token does not see all runs.
    pub async fn prune_runs(&self, prune: &PruneRuns) -> Result<PrunedRuns, ApiError> {
        let url = self.url(&["v2", "runs", "prune"]);
        let millis = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let body = Body {
            older_than_ms: prune.older_than.map(millis),
            agent_id: prune.agent_id.as_deref(),
            dry_run: prune.dry_run,
        };
        ask(self.request(Method::POST, url.clone()).json(&body), &url).await
    }
}
