//! What a driver says as data, judged before it is written: nothing that a log's AG-UI view could not tell.
//!
//! The rest of a driver's mistakes do not compile, because content goes through the handles of open segments.

use std::collections::HashSet;

use runwire_agui::producer::check_value;
use runwire_agui::{Event, Interrupt, RunAgentInput, RunFinishedOutcome, RunStarted};
use runwire_bridge::{Agui, Ending, ExchangeEnd, Failure, LogState, Opening, usage_to_agui};
use runwire_frame::{ErrorCode, MAX_VALUE_DEPTH, SegmentId, json_depth};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::writer::WriteError;

/// Where an `error` frame keeps what the upstream's `RUN_FINISHED` said that the failure came after.
const AFTER_FINISH: &str = "afterFinish";

/// The events that a notice can hold, as its code names them. None of them opens, closes or continues anything.
const NOTICE_EVENTS: [&str; 7] = [
    "STATE_SNAPSHOT",
    "STATE_DELTA",
    "ACTIVITY_SNAPSHOT",
    "ACTIVITY_DELTA",
    "CUSTOM",
    "RAW",
    "REASONING_ENCRYPTED_VALUE",
];

fn refused(what: impl Into<String>) -> WriteError {
    WriteError::Refused(what.into())
}

/// What nests deeper could be written, and not be read again.
pub(crate) fn within_depth(value: &impl Serialize) -> Result<(), WriteError> {
    let json = serde_json::to_vec(value).map_err(|e| refused(e.to_string()))?;
    if json_depth(&json) > MAX_VALUE_DEPTH {
        return Err(refused(format!("it nests more than {MAX_VALUE_DEPTH} levels of JSON")));
    }
    Ok(())
}

/// How a segment is opened.
pub(crate) fn opening(opening: &Opening, log: &LogState) -> Result<(), WriteError> {
    if let Some(parent) = &opening.parent
        && !log.has_opened(parent)
    {
        return Err(refused(format!("it is to happen inside of segment `{parent}`, which this run never opened")));
    }
    let Some(agui) = &opening.agui else { return Ok(()) };
    within_depth(agui)?;
    // With these an opening frame is read as the AG-UI event that an upstream agent sent.
    match ["type", "toolCallId"].into_iter().find(|key| agui.contains_key(*key)) {
        Some(key) => {
            Err(refused(format!("its `agui` has the member `{key}`, which is the event's own and not the driver's")))
        }
        None => Ok(()),
    }
}

/// A tool call, opened so. AG-UI knows a call by its id alone, and each call belongs to one agent.
pub(crate) fn tool_call(id: &str, opening: &Opening, log: &LogState, input: &RunAgentInput) -> Result<(), WriteError> {
    let agent = opening.parent.as_ref().and_then(|parent| log.agent_around(parent));
    if let Some(before) = log.call_made(id)
        && before != agent
    {
        let whose = |agent: Option<&SegmentId>| agent.map_or("the run".to_owned(), |agent| format!("agent `{agent}`"));
        return Err(refused(format!(
            "tool call `{id}` was made by {} in this run, and is now to be made by {}; a call belongs to one of them",
            whose(before),
            whose(agent)
        )));
    }
    let told = input.messages.iter().find(|message| message.tool_calls().iter().any(|call| call.id == id));
    if told.is_some_and(|message| agent.is_some() || message.subagent_run_id().is_some()) {
        return Err(refused(format!("tool call `{id}` is in the conversation already, as another agent's")));
    }
    Ok(())
}

/// How a segment ends.
pub(crate) fn ending(ending: &Ending) -> Result<(), WriteError> {
    if let Some(usage) = &ending.usage {
        usage_to_agui(usage).check().map_err(|e| refused(format!("its usage does not add up: {e}")))?;
    }
    let Some(agui) = &ending.agui else { return Ok(()) };
    within_depth(agui)?;
    if let Some(key) = agui.keys().find(|key| !["timestamp", "rawEvent", "metadata"].contains(&key.as_str())) {
        return Err(refused(format!(
            "its `agui` has the member `{key}`; the end of a segment can carry `timestamp`, `rawEvent` and `metadata`"
        )));
    }
    event(json!({ "type": "CUSTOM", "name": "", "value": null }), Some(agui)).map(|_| ())
}

/// A notice. One whose code is that of an AG-UI event holds the event in its attributes.
pub(crate) fn notice(code: &str, attributes: Option<&Map<String, Value>>) -> Result<(), WriteError> {
    within_depth(&attributes)?;
    let Some(name) = code.strip_prefix("agui.") else { return Ok(()) };
    if !NOTICE_EVENTS.contains(&name) {
        return Err(refused(format!(
            "a notice with the code `{code}` cannot be written by a driver; those of {} can",
            NOTICE_EVENTS.join(", ")
        )));
    }
    let attributes = attributes.cloned().unwrap_or_default();
    let event = event(Value::Object(attributes), None)?;
    if event.event_type().as_str() != name {
        return Err(refused(format!("a notice with the code `{code}` holds a {}", event.event_type())));
    }
    if let Some(agent) = event.subagent_run_id() {
        return Err(refused(format!("a notice belongs to the run, and its event to subagent `{agent}`")));
    }
    Ok(())
}

/// An event as it will be told, with these members over its own.
fn event(mut event: Value, agui: Option<&Map<String, Value>>) -> Result<Event, WriteError> {
    if let (Value::Object(event), Some(agui)) = (&mut event, agui) {
        event.extend(agui.clone());
    }
    check_value(event).map_err(|violation| refused(violation.message))
}

/// What an upstream's `RUN_STARTED` says, if it can be told; `input` is what the run was asked.
pub(crate) fn started_can_be_told(started: &RunStarted) -> bool {
    // Which version the upstream speaks is not what this server tells its clients.
    let told = RunStarted { protocol_version: None, ..started.clone() };
    let can_be_told = within_depth(started).is_ok() && event(Event::from(told).to_value(), None).is_ok();
    if !can_be_told {
        tracing::warn!(
            run_id = started.run_id,
            "what the driver says of its RUN_STARTED breaks AG-UI and was left out"
        );
    }
    can_be_told
}

/// The end of an exchange as it can be told. A driver that says more than AG-UI has words for has failed; a run that was
/// stopped, or failed already, ends so without what cannot be told.
pub(crate) fn exchange_end(end: ExchangeEnd, log: &LogState) -> ExchangeEnd {
    let (problem, usage) = match &end {
        ExchangeEnd::Completed(completion) => (completed(&completion.agui, log).err(), &completion.usage),
        ExchangeEnd::Suspended(suspension) => {
            let waits = waits_for_something(&suspension.contract);
            (waits.and_then(|()| suspended(&suspension.contract, &suspension.agui)).err(), &suspension.usage)
        }
        ExchangeEnd::Cancelled { usage, agui } => {
            let Err(problem) = cancelled(agui) else { return end };
            tracing::warn!(%problem, "what the driver says of the stopped run cannot be told and was left out");
            return ExchangeEnd::Cancelled { usage: usage.clone(), agui: None };
        }
        ExchangeEnd::Failed(failure) => {
            let Err(problem) = failed(&failure.agui) else { return end };
            tracing::warn!(%problem, "what the driver says of the failed run cannot be told and was left out");
            return ExchangeEnd::Failed(Failure { agui: None, ..failure.clone() });
        }
    };
    let Some(problem) = problem else { return end };
    let problem = match problem {
        WriteError::Refused(problem) => problem,
        other => other.to_string(),
    };
    let message = format!("the agent's driver ended the run in a way that cannot be told: {problem}");
    ExchangeEnd::Failed(Failure { usage: usage.clone(), ..Failure::new(ErrorCode::InternalError, message) })
}

/// The members of a `RUN_FINISHED`, without those that are not the driver's to say.
fn finished(agui: &Agui, not_said: &[&str]) -> Result<Option<RunFinishedOutcome>, WriteError> {
    let Some(agui) = agui else { return Ok(None) };
    within_depth(agui)?;
    let fixed = ["type", "threadId", "runId"];
    if let Some(key) = fixed.iter().chain(not_said).find(|key| agui.contains_key(**key)) {
        return Err(refused(format!("its `agui` has the member `{key}`, which is the run's own")));
    }
    match event(json!({ "type": "RUN_FINISHED", "threadId": "", "runId": "" }), Some(agui))? {
        Event::RunFinished(finished) => Ok(finished.outcome),
        other => Err(refused(format!("it makes a {} of the run's end", other.event_type()))),
    }
}

fn completed(agui: &Agui, log: &LogState) -> Result<(), WriteError> {
    match finished(agui, &[])? {
        None | Some(RunFinishedOutcome::Success { pending_tool_call_ids: None }) => Ok(()),
        Some(RunFinishedOutcome::Success { pending_tool_call_ids: Some(named) }) => {
            let pending: HashSet<&str> = log.pending_calls().collect();
            let named: HashSet<&str> = named.iter().map(String::as_str).collect();
            // Calls of an abandoned attempt are nobody's to answer, and the view leaves such a list out.
            if named.is_empty() || named == pending || log.attempt() > 1 {
                return Ok(());
            }
            Err(refused("`pendingToolCallIds` are not the tool calls that the run made and did not answer"))
        }
        Some(other) => Err(refused(format!(
            "it completed, and says the outcome {}",
            serde_json::to_value(other).unwrap_or_default()
        ))),
    }
}

/// A run that was stopped is never told as anything else.
fn cancelled(agui: &Agui) -> Result<(), WriteError> {
    match finished(agui, &[])? {
        None | Some(RunFinishedOutcome::Cancelled) => Ok(()),
        Some(_) => Err(refused("it was stopped, and says another outcome")),
    }
}

fn suspended(contract: &Map<String, Value>, agui: &Agui) -> Result<(), WriteError> {
    within_depth(contract)?;
    finished(agui, &["outcome"]).map(|_| ())
}

/// A client can only go on with a run whose interrupts it can tell apart and answer.
fn waits_for_something(contract: &Map<String, Value>) -> Result<(), WriteError> {
    let given = contract.get("interrupts").cloned().unwrap_or_default();
    let without = |problem: String| refused(format!("it waits without interrupts that can be answered: {problem}"));
    let interrupts: Vec<Interrupt> = serde_json::from_value(given).map_err(|error| without(error.to_string()))?;
    let mut ids = HashSet::new();
    match interrupts.iter().find(|interrupt| !ids.insert(&*interrupt.id)) {
        _ if interrupts.is_empty() => Err(without("there is none".to_owned())),
        Some(repeated) => Err(without(format!("two have the id `{}`", repeated.id))),
        None => Ok(()),
    }
}

fn failed(agui: &Agui) -> Result<(), WriteError> {
    let Some(agui) = agui else { return Ok(()) };
    within_depth(agui)?;
    let mut said = agui.clone();
    if let Some(after) = said.shift_remove(AFTER_FINISH) {
        let Value::Object(after) = after else { return Err(refused(format!("`{AFTER_FINISH}` is no object"))) };
        finished(&Some(after), &[])?;
    }
    match event(json!({ "type": "RUN_ERROR", "message": "" }), Some(&said))? {
        Event::RunError(_) => Ok(()),
        other => Err(refused(format!("it makes a {} of the failure", other.event_type()))),
    }
}
