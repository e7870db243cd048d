//! Guardrails: what may go into an agent, come out of it, and be asked of its tools.
//!
//! Each is a pattern, judged here, or a service that is asked. One that finds something warns (`notice`
//! `guardrail_warned`), or stops the run: it fails with `GUARDRAIL_BLOCKED`.
//!
//! - *Input*: what the user said since the agent spoke last, before the exchange is given to the driver.
//! - *Tool calls*: the whole arguments, before the tool can be executed.
//! - *Output*: by a pattern piece by piece, before the piece is written, so that what it finds is never seen; by a service at
//!   the end of the message, because it has to be asked about a whole one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use regex::Regex;
use runwire_agui::{Event, Message, RunAgentInput};
use serde::{Deserialize, Serialize};

use crate::outgoing_http::{HttpSetupError, http_address, http_client};
use crate::retry_after::{retry_after, told_retry_after};

/// How far back in a message a pattern can look, in bytes: what is longer than this and arrives in pieces is not found.
pub const OUTPUT_WINDOW: usize = 4096;

/// A service may answer with so many bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// Something that looks at what goes through a run.
#[derive(Clone, Debug)]
pub struct Guardrail {
    /// What it is called, for whoever reads that it found something.
    pub name: String,
    /// What it looks at.
    pub on: Vec<Guarded>,
    /// How it judges.
    pub judge: Judge,
    /// What follows when it finds something.
    pub action: Action,
}

/// What a guardrail looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarded {
    /// What the user says.
    Input,
    /// What the agent says.
    Output,
    /// What a tool is called with.
    ToolCall,
}

/// How a guardrail judges.
#[derive(Clone, Debug)]
pub enum Judge {
    /// It finds what this matches.
    Pattern(Regex),
    /// It finds what this objects to.
    Service(GuardService),
}

/// What follows when a guardrail finds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A `notice`, `guardrail_warned`; the run goes on.
    Warn,
    /// The run fails with `GUARDRAIL_BLOCKED`.
    Stop,
}

/// An HTTP service that judges. It is sent `{"guardrail","on","text","tool"}` and answers `{"allow": true|false}`, with a
/// `message` if it has a reason.
#[derive(Clone, Debug)]
pub struct GuardService {
    client: reqwest::Client,
    url: reqwest::Url,
}

#[derive(Serialize)]
struct Question<'a> {
    guardrail: &'a str,
    on: Guarded,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
}

#[derive(Deserialize)]
struct Answer {
    allow: bool,
    message: Option<String>,
}

impl GuardService {
    /// A service at that address.
    ///
    /// # Errors
    /// [`HttpSetupError`].
    pub fn new(url: &str, headers: &[(String, String)], timeout: Duration) -> Result<GuardService, HttpSetupError> {
        let url = http_address(url)?;
        let client = http_client(&url, headers)?.timeout(timeout).build()?;
        Ok(GuardService { client, url })
    }

    async fn ask(&self, question: &Question<'_>) -> Result<Option<String>, NoJudgement> {
        // The address stays out of what is said: it may hold a secret.
        let plainly = |error: reqwest::Error| NoJudgement::from(error.without_url().to_string());
        let mut answer = self.client.post(self.url.clone()).json(question).send().await.map_err(plainly)?;
        if !answer.status().is_success() {
            let retry_after = retry_after(answer.headers());
            let why = format!("it answered {}{}", answer.status(), told_retry_after(retry_after));
            return Err(NoJudgement { why, retry_after });
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(plainly)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER {
                return Err(format!("its answer is larger than {MAX_ANSWER} bytes").into());
            }
        }
        let answer: Answer = serde_json::from_slice(&body).map_err(|e| format!("its answer is none: {e}"))?;
        Ok((!answer.allow).then(|| answer.message.unwrap_or_else(|| "it gave no reason".to_owned())))
    }
}

/// Why a service could not judge.
struct NoJudgement {
    why: String,
    /// For how long it asks to be left alone.
    retry_after: Option<Duration>,
}

impl From<String> for NoJudgement {
    fn from(why: String) -> NoJudgement {
        NoJudgement { why, retry_after: None }
    }
}

/// Something that a guardrail found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub guardrail: String,
    pub on: Guarded,
    pub message: String,
    pub action: Action,
    /// The guardrail could not judge, which may pass.
    pub retryable: bool,
    /// For how long it asks to be left alone then.
    pub retry_after: Option<Duration>,
}

/// The guardrails of one run, and how much of what goes through it they have seen.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    rails: Vec<Guardrail>,
    /// What is open: messages and calls, by their names. Emptied by their ends.
    open: Mutex<HashMap<String, Watched>>,
}

#[derive(Debug, Default)]
struct Watched {
    /// Of a message as far back as a pattern looks, or the whole of it if a service will be asked; of a call its arguments.
    text: String,
    tool: Option<String>,
    /// The guardrails that have warned of it: once is enough.
    warned: Vec<usize>,
}

impl Guards {
    pub(crate) fn new(rails: Vec<Guardrail>) -> Guards {
        Guards { rails, open: Mutex::default() }
    }

    fn watch(&self, on: Guarded) -> bool {
        self.rails.iter().any(|rail| rail.on.contains(&on))
    }

    fn asks(&self, on: Guarded) -> bool {
        self.rails.iter().any(|rail| rail.on.contains(&on) && matches!(rail.judge, Judge::Service(_)))
    }

    /// Judges a whole text.
    async fn judge(&self, on: Guarded, text: &str, tool: Option<&str>, patterns: bool) -> Vec<Found> {
        let mut found = Vec::new();
        for rail in self.rails.iter().filter(|rail| rail.on.contains(&on)) {
            let (message, retryable, retry_after) = match &rail.judge {
                Judge::Pattern(pattern) if patterns && pattern.is_match(text) => (matched(), false, None),
                Judge::Pattern(_) => continue,
                Judge::Service(service) => {
                    match service.ask(&Question { guardrail: &rail.name, on, text, tool }).await {
                        Ok(None) => continue,
                        Ok(Some(reason)) => (reason, false, None),
                        // What cannot be judged does not pass.
                        Err(NoJudgement { why, retry_after }) => {
                            (format!("it could not judge: {why}"), true, retry_after)
                        }
                    }
                }
            };
            let (guardrail, action) = (rail.name.clone(), rail.action);
            found.push(Found { guardrail, on, message, action, retryable, retry_after });
            if rail.action == Action::Stop {
                break;
            }
        }
        found
    }

    /// Judges what the user said since the agent spoke last.
    pub(crate) async fn input(&self, input: &RunAgentInput) -> Vec<Found> {
        if !self.watch(Guarded::Input) {
            return Vec::new();
        }
        let since = input.messages.iter().rev().take_while(|message| !matches!(message, Message::Assistant(_)));
        let mut said: Vec<String> = since
            .filter_map(|message| match message {
                Message::User(user) => Some(user.content.text()),
                _ => None,
            })
            .collect();
        said.reverse();
        let answers = input.resume().iter().filter_map(|entry| entry.payload.as_ref());
        said.extend(answers.map(|payload| payload.as_str().map_or_else(|| payload.to_string(), str::to_owned)));
        self.judge(Guarded::Input, &said.join("\n"), None, true).await
    }

    /// Judges a piece of a message, before it is written. Asks no service.
    pub(crate) fn output(&self, message: &str, piece: &str) -> Vec<Found> {
        if !self.watch(Guarded::Output) {
            return Vec::new();
        }
        let whole = self.asks(Guarded::Output);
        let mut open = self.lock();
        let watched = open.entry(message.to_owned()).or_default();
        let mut from = watched.text.len().saturating_sub(OUTPUT_WINDOW);
        while !watched.text.is_char_boundary(from) {
            from += 1;
        }
        watched.text.push_str(piece);
        let mut found = Vec::new();
        for (i, rail) in self.rails.iter().enumerate() {
            let Judge::Pattern(pattern) = &rail.judge else { continue };
            if rail.on.contains(&Guarded::Output)
                && !watched.warned.contains(&i)
                && pattern.is_match(&watched.text[from..])
            {
                watched.warned.push(i);
                let (guardrail, action) = (rail.name.clone(), rail.action);
                let (on, message) = (Guarded::Output, matched());
                found.push(Found { guardrail, on, message, action, retryable: false, retry_after: None });
            }
        }
        if !whole {
            watched.text.drain(..from);
        }
        found
    }

    /// Judges a message that is whole: what only a service can judge.
    pub(crate) async fn output_ended(&self, message: &str) -> Vec<Found> {
        if !self.watch(Guarded::Output) {
            return Vec::new();
        }
        let watched = self.lock().remove(message);
        match watched {
            Some(watched) if self.asks(Guarded::Output) => {
                self.judge(Guarded::Output, &watched.text, None, false).await
            }
            _ => Vec::new(),
        }
    }

    /// Takes up a tool call.
    pub(crate) fn call(&self, call: &str, tool: &str) {
        if self.watch(Guarded::ToolCall) {
            let watched = Watched { tool: Some(tool.to_owned()), ..Watched::default() };
            self.lock().insert(call.to_owned(), watched);
        }
    }

    /// Takes up a piece of its arguments.
    pub(crate) fn arguments(&self, call: &str, piece: &str) {
        if self.watch(Guarded::ToolCall)
            && let Some(watched) = self.lock().get_mut(call)
        {
            watched.text.push_str(piece);
        }
    }

    /// Judges a call whose arguments are complete.
    pub(crate) async fn call_complete(&self, call: &str) -> Vec<Found> {
        if !self.watch(Guarded::ToolCall) {
            return Vec::new();
        }
        let watched = self.lock().remove(call);
        match watched {
            Some(watched) => self.judge(Guarded::ToolCall, &watched.text, watched.tool.as_deref(), true).await,
            None => Vec::new(),
        }
    }

    /// Judges an upstream agent's event, before it is written.
    pub(crate) async fn event(&self, event: &Event) -> Vec<Found> {
        if self.rails.is_empty() {
            return Vec::new();
        }
        match event {
            // An attempt may use the names of the one before.
            Event::TextMessageStart(start) => {
                self.lock().remove(&start.message_id);
                Vec::new()
            }
            Event::TextMessageContent(content) => self.output(&content.message_id, &content.delta),
            Event::TextMessageEnd(end) => self.output_ended(&end.message_id).await,
            Event::ToolCallStart(start) => {
                self.call(&start.tool_call_id, &start.tool_call_name);
                Vec::new()
            }
            Event::ToolCallArgs(args) => {
                self.arguments(&args.tool_call_id, &args.delta);
                Vec::new()
            }
            Event::ToolCallEnd(end) => self.call_complete(&end.tool_call_id).await,
            _ => Vec::new(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Watched>> {
        // Each change is whole by itself.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was matched is not repeated: it may be what must not be seen.
fn matched() -> String {
    "its pattern matched".to_owned()
}
