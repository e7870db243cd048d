//! The run API: create, read, list and cancel runs.

use std::time::Duration;

use http::HeaderValue;
use reqwest::{Method, RequestBuilder, Url};
use runwire_agui::{Outgoing, OutgoingError};
use runwire_frame::RunStatus;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{Problem, Server};

/// A request of the run API that takes longer than this has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a request of the run API failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// No answer came. Whether the server did what was asked is not known.
    #[error("no answer from {url}; check the address and whether the server is running")]
    Unreachable {
        /// What was asked.
        url: String,
        /// What went wrong on the way.
        source: reqwest::Error,
    },
    /// The run input must not be sent as it is. Nothing was sent.
    #[error("the run was not asked for: {0}")]
    Input(#[from] OutgoingError),
    /// The run's idempotency key is none. Nothing was sent.
    #[error(
        "the run was not asked for: `{key}` is no idempotency key, which has 1 to 255 visible characters of ASCII, and no \
         spaces"
    )]
    IdempotencyKey {
        /// What was given.
        key: String,
    },
    /// The server did not do what was asked, and said why.
    #[error("{0}")]
    Problem(Problem),
    /// The answer is not what the run API answers: something else than a Runwire server is there.
    #[error("the answer of {url} cannot be read: {problem}; is that the address of a Runwire server?")]
    Unreadable {
        /// What was asked.
        url: String,
        /// What is wrong with the answer.
        problem: String,
    },
}

impl ApiError {
    /// The HTTP status, when the server answered with a problem.
    pub fn status(&self) -> Option<u16> {
        match self {
            ApiError::Problem(problem) => Some(problem.status),
            _ => None,
        }
    }
}

/// What a new run is to do: an agent, and a prompt or a `RunAgentInput`.
#[derive(Clone, Debug, Serialize)]
pub struct CreateRun {
    agent_id: String,
    #[serde(flatten)]
    ask: Ask,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    /// Goes into a header.
    #[serde(skip)]
    idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ask {
    Prompt(String),
    Input(Value),
}

impl CreateRun {
    /// A run that answers one message of the user.
    pub fn prompt(agent_id: impl Into<String>, prompt: impl Into<String>) -> CreateRun {
        CreateRun::new(agent_id.into(), Ask::Prompt(prompt.into()))
    }

    /// A run with a whole `RunAgentInput`, whose ids may be left out. What is sent of it is what a client of AG-UI 1.0 may
    /// send (basic/processing, "Outgoing material"): its version is declared, and activity messages and whatever 1.0 does
    /// not describe are stripped; the latter is logged.
    pub fn input(agent_id: impl Into<String>, input: Value) -> CreateRun {
        CreateRun::new(agent_id.into(), Ask::Input(input))
    }

    fn new(agent_id: String, ask: Ask) -> CreateRun {
        CreateRun { agent_id, ask, session_id: None, lane: None, metadata: None, idempotency_key: None }
    }

    /// The conversation that the run belongs to. Without it the server begins a new one. With a prompt, the agent is given
    /// what was said in it before, unless it is configured otherwise; an input is given as it is.
    #[must_use]
    pub fn session_id(mut self, session_id: impl Into<String>) -> CreateRun {
        self.session_id = Some(session_id.into());
        self
    }

    /// The lane that the run queues in. Without it the agent's own.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> CreateRun {
        self.lane = Some(lane.into());
        self
    }

    /// A key by which the server knows this request when it is sent again: then it answers with the run that the first one
    /// made, and starts nothing. 1 to 255 visible characters of ASCII, another one for each run that is wanted; a UUID, say.
    ///
    /// With it a request whose answer was lost can be sent again.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> CreateRun {
        self.idempotency_key = Some(key.into());
        self
    }

    /// The header `Idempotency-Key`, as a string of structured fields (RFC 8941); or the key, when it is none.
    fn key_header(&self) -> Result<Option<HeaderValue>, String> {
        let Some(key) = &self.idempotency_key else { return Ok(None) };
        if !(1..=255).contains(&key.len()) || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(key.clone());
        }
        let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        HeaderValue::try_from(quoted).map(Some).map_err(|_| key.clone())
    }

    /// The run with its input as it may be sent.
    fn prepared(&self) -> Result<CreateRun, OutgoingError> {
        let mut run = self.clone();
        if let Ask::Input(input) = &mut run.ask {
            // The schema asks for ids and the run API does not: it makes those that are left out.
            let mut made = Vec::new();
            if let Value::Object(members) = &mut *input {
                for id in ["threadId", "runId"].into_iter().filter(|id| !members.contains_key(*id)).collect::<Vec<_>>()
                {
                    members.insert(id.to_owned(), Value::from(""));
                    made.push(id);
                }
            }
            let prepared = Outgoing::default().prepare(std::mem::take(input))?;
            for warning in &prepared.warnings {
                tracing::warn!(agent_id = %self.agent_id, %warning, "the run input");
            }
            let mut prepared = serde_json::to_value(&prepared.input).expect("a run input is plain JSON");
            for id in made {
                prepared.as_object_mut().expect("a run input is an object").shift_remove(id);
            }
            *input = prepared;
        }
        Ok(run)
    }

    /// Anything the caller wants to find on the run's record again.
    #[must_use]
    pub fn metadata(mut self, metadata: Value) -> CreateRun {
        self.metadata = Some(metadata);
        self
    }
}

/// What the server knows about one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    run_id: String,
    status: RunStatus,
    head: u64,
    members: Map<String, Value>,
}

impl RunRecord {
    /// The run's name.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Where the run stands.
    pub fn status(&self) -> RunStatus {
        self.status
    }

    /// The `seq` of the newest frame in its log; 0 while there is none.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The agent that executes it.
    pub fn agent_id(&self) -> Option<&str> {
        self.members.get("agent_id")?.as_str()
    }

    /// The conversation that it belongs to.
    pub fn session_id(&self) -> Option<&str> {
        self.members.get("session_id")?.as_str()
    }

    /// The run that started it, or that its input names as its parent.
    pub fn parent_run_id(&self) -> Option<&str> {
        self.members.get("parent_run_id")?.as_str()
    }

    /// Which attempt it is in, from 1; 0 before the first.
    pub fn attempt(&self) -> Option<u64> {
        self.members.get("attempt")?.as_u64()
    }

    /// What it waits for, while it is suspended. Lists of runs do not tell.
    pub fn waits_for(&self) -> Option<WaitsFor> {
        serde_json::from_value(self.members.get("waits_for")?.clone()).ok()
    }

    /// Every member of the record, as the server sent it.
    pub fn members(&self) -> &Map<String, Value> {
        &self.members
    }
}

impl Serialize for RunRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.members.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RunRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RunRecord, D::Error> {
        #[derive(Deserialize)]
        struct Known {
            run_id: String,
            status: RunStatus,
            head: u64,
        }
        let members = Map::deserialize(deserializer)?;
        let Known { run_id, status, head } =
            Known::deserialize(&members).map_err(|e| D::Error::custom(format_args!("no run record: {e}")))?;
        Ok(RunRecord { run_id, status, head, members })
    }
}

/// What a suspended run waits for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WaitsFor {
    /// What to ask, for a person.
    #[serde(default)]
    pub prompt: Option<String>,
    /// When waiting ends, RFC 3339 in UTC.
    #[serde(default)]
    pub deadline_at: Option<String>,
    /// Each of these has to be answered or given up.
    pub interrupts: Vec<OpenInterrupt>,
}

/// One thing that a suspended run asks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OpenInterrupt {
    /// What an answer names.
    pub interrupt_id: String,
    /// Why the run stopped.
    pub reason: String,
    /// What to ask, for a person.
    #[serde(default)]
    pub message: Option<String>,
    /// The tool call that it is about.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// The JSON Schema of the answer.
    #[serde(default)]
    pub response_schema: Option<Map<String, Value>>,
}

impl OpenInterrupt {
    /// Whether an answer says yes or no by a boolean member `approved`, as far as its schema tells.
    pub fn asks_for_approval(&self) -> bool {
        let schema = self.response_schema.as_ref();
        let approved = schema.and_then(|schema| schema.get("properties")?.get("approved")?.get("type"));
        approved.is_some_and(|of| of == "boolean")
    }
}

/// An answer to one interrupt of a suspended run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    interrupt_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
}

impl Answer {
    /// Answered with this value, which has to fit the interrupt's schema.
    pub fn resolved(interrupt_id: impl Into<String>, payload: Value) -> Answer {
        let payload = Some(payload).filter(|payload| !payload.is_null());
        Answer { interrupt_id: interrupt_id.into(), status: "resolved", payload }
    }

    /// Given up.
    pub fn cancelled(interrupt_id: impl Into<String>) -> Answer {
        Answer { interrupt_id: interrupt_id.into(), status: "cancelled", payload: None }
    }
}

/// Which runs to list; every condition must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs of this agent.
    pub agent_id: Option<String>,
    /// Runs of this conversation.
    pub session_id: Option<String>,
    /// Runs that this run started.
    pub parent_run_id: Option<String>,
    /// Runs in one of these statuses; empty for any.
    pub status: Vec<RunStatus>,
    /// At most so many; the server's own limit otherwise.
    pub limit: Option<u32>,
    /// Go on where the page with this [`RunPage::next`] ended.
    pub before: Option<String>,
}

impl RunFilter {
    fn add_to(&self, url: &mut Url) {
        let texts = [
            ("agent_id", &self.agent_id),
            ("session_id", &self.session_id),
            ("parent_run_id", &self.parent_run_id),
            ("before", &self.before),
        ];
        let texts = texts.into_iter().filter_map(|(key, value)| Some((key, value.clone()?)));
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        let status: Vec<&str> = self.status.iter().map(|s| s.as_str()).collect();
        let status = (!status.is_empty()).then(|| ("status", status.join(",")));
        let conditions: Vec<_> = texts.chain(limit).chain(status).collect();
        if !conditions.is_empty() {
            url.query_pairs_mut().extend_pairs(conditions);
        }
    }
}

/// Some runs, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// What to pass as [`RunFilter::before`] for the next page; `None` on the last.
    #[serde(default)]
    pub next: Option<String>,
}

impl Server {
    /// Creates a run. It is asked for once: when the future is dropped, or no answer comes, it is not known whether the run
    /// was created. With an [`idempotency_key`](CreateRun::idempotency_key) it can be asked for again.
    ///
    /// # Errors
    /// [`ApiError`]; status 422 also when the key was used for something else, 410 when the run that it made was removed.
    pub async fn create_run(&self, run: &CreateRun) -> Result<RunRecord, ApiError> {
        let key = run.key_header().map_err(|key| ApiError::IdempotencyKey { key })?;
        let run = run.prepared()?;
        let url = self.url(&["v2", "runs"]);
        let mut request = self.request(Method::POST, url.clone()).json(&run);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        ask(request, &url).await
    }

    /// The record of one run.
    ///
    /// # Errors
    /// [`ApiError`]; status 404 when there is no such run or the token may not see it.
    pub async fn run(&self, run_id: &str) -> Result<RunRecord, ApiError> {
        let url = self.url(&["v2", "runs", run_id]);
        ask(self.request(Method::GET, url.clone()), &url).await
    }

    /// The runs that pass `filter`, newest first, one page of them.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn runs(&self, filter: &RunFilter) -> Result<RunPage, ApiError> {
        let mut url = self.url(&["v2", "runs"]);
        filter.add_to(&mut url);
        ask(self.request(Method::GET, url.clone()), &url).await
    }

    /// Answers what a suspended run waits for: all of it. The run goes on; the same answers again change nothing.
    ///
    /// # Errors
    /// [`ApiError`]; status 409 when it waits for nothing or was answered in another way, 422 when an answer is missing,
    /// too late or does not fit its schema.
    pub async fn resume(&self, run_id: &str, answers: &[Answer]) -> Result<RunRecord, ApiError> {
        let url = self.url(&["v2", "runs", run_id, "resume"]);
        ask(self.request(Method::POST, url.clone()).json(&serde_json::json!({ "answers": answers })), &url).await
    }

    /// Asks a run to stop. It answers at once; the run's log says when it has stopped.
    ///
    /// # Errors
    /// [`ApiError`]. A run that has ended is no error: its record comes back as it is.
    pub async fn cancel(&self, run_id: &str) -> Result<RunRecord, ApiError> {
        let url = self.url(&["v2", "runs", run_id, "cancel"]);
        ask(self.request(Method::POST, url.clone()), &url).await
    }
}

pub(crate) async fn ask<T: for<'de> Deserialize<'de>>(request: RequestBuilder, url: &Url) -> Result<T, ApiError> {
    let unreachable =
        |source: reqwest::Error| ApiError::Unreachable { url: url.to_string(), source: source.without_url() };
    let response = request.timeout(REQUEST_TIMEOUT).send().await.map_err(unreachable)?;
    let status = response.status();
    let body = response.bytes().await.map_err(unreachable)?;
    if !status.is_success() {
        return Err(ApiError::Problem(Problem::read(status, &body)));
    }
    serde_json::from_slice(&body).map_err(|e| ApiError::Unreadable { url: url.to_string(), problem: e.to_string() })
}
