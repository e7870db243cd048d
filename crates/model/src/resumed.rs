//! Going on with a run that waited for approvals: what was decided is done to the calls as this server recorded them, whatever
//! the conversation that came with the answer says of them.

use runwire_bridge::{Failure, Opening, WaitingCall, kind};
use runwire_engine::{Segment, WriteError};
use serde_json::json;

use crate::approval::{Decision, wants_arguments};
use crate::call::{CallResult, MadeCall, Turn};
use crate::execution::{Due, What, execute_all};
use crate::history::unanswered;
use crate::tool::{Arguments, Callee};
use crate::work::Work;

/// A tool call that a suspended run made and that still waits for its result, as the log has it.
struct RecordedCall {
    tool_call_id: String,
    tool_slug: String,
    /// As they were recorded. Whoever answers for the call goes by these.
    arguments: String,
    /// What its result is written through.
    segment: Segment<kind::Tool>,
}

/// What was answered about a call.
struct Asked {
    decision: Decision,
    /// Whether what was recorded of its arguments is less than the call was made with.
    redacted: bool,
}

/// What going on came to.
pub(crate) struct Resumed {
    /// Whether the application still owes the result of one of its own tools.
    pub waits: bool,
}

impl Work {
    /// Executes what was approved, answers what was denied, and brings the conversation in step with the log.
    pub(crate) async fn go_on(&mut self) -> Result<Resumed, Failure> {
        let mut recorded = Vec::new();
        for call in self.exchange.calls.clone() {
            recorded.push(self.take_up(call).await?);
        }
        let mut waits = false;
        let mut asked: Vec<(RecordedCall, Asked)> = Vec::new();
        for call in recorded {
            let mut interrupts = self.exchange.interrupts.iter();
            match interrupts.find(|it| it.tool_call_id.as_deref() == Some(call.tool_call_id.as_str())) {
                Some(interrupt) => {
                    let mut entries = self.exchange.input.resume().iter();
                    let entry = entries.find(|entry| entry.interrupt_id == interrupt.id);
                    let (decision, redacted) = (Decision::of(entry), wants_arguments(interrupt));
                    asked.push((call, Asked { decision, redacted }));
                }
                // A tool of the application, whose result comes with the conversation.
                None => waits |= !is_answered(&self.request.turns, &call.tool_call_id),
            }
        }
        record(&mut self.request.turns, asked.iter().map(|(call, _)| call));
        let mut due = Vec::new();
        for (call, Asked { decision, redacted }) in asked {
            let RecordedCall { tool_call_id, tool_slug, arguments, segment } = call;
            let arguments = match decision {
                // What would be executed is what was recorded, and that is not what the model wrote.
                Decision::Approved if redacted => {
                    Err("The call was not made: it was allowed without the arguments that are not kept.".to_owned())
                }
                Decision::Approved => Ok(Arguments::parse(&arguments)),
                Decision::Edited(edited) => {
                    let edited = Arguments::of(edited);
                    let message = format!("`{tool_slug}` was allowed with other arguments than the model's");
                    let attributes = json!({ "tool_call_id": tool_call_id, "arguments": edited.value() });
                    self.notice("tool_arguments_edited", &message, attributes).await?;
                    // The model is told what was really done.
                    if let Some(call) = call_mut(&mut self.request.turns, &tool_call_id) {
                        call.arguments = edited.as_json().to_owned();
                    }
                    Ok(Ok(edited))
                }
                Decision::Denied(reason) => Err(match reason {
                    Some(reason) => format!("The call was not allowed: {reason}"),
                    None => "The call was not allowed.".to_owned(),
                }),
            };
            let mut results = self.exchange.results.iter();
            let done = results.find(|result| result.ok && result.tool_call_id == tool_call_id);
            let what = match (arguments, self.tools.callee(&tool_slug)) {
                (Err(denied), _) => What::Tell(denied),
                // An earlier attempt at the exchange has made it. What failed then is tried again.
                (Ok(Ok(_)), _) if let Some(done) = done => What::Done(done.output.clone()),
                (Ok(Err(problem)), _) => What::Tell(problem),
                (Ok(Ok(arguments)), Callee::Own(tool)) => What::Call(tool.clone(), arguments),
                // The configuration has changed since it was asked.
                (Ok(Ok(_)), Callee::Frontend | Callee::Nobody) => What::Tell(self.tools.no_such_tool(&tool_slug)),
            };
            due.push(Due { id: tool_call_id, name: tool_slug, segment, what });
        }
        for result in execute_all(due).await? {
            if let Some(place) = result_mut(&mut self.request.turns, &result.id) {
                *place = result;
            }
        }
        Ok(Resumed { waits })
    }
}

impl Work {
    /// Takes a call up again. An attempt that failed has closed it: then it is written once more, as it was recorded.
    async fn take_up(&self, call: WaitingCall) -> Result<RecordedCall, WriteError> {
        let WaitingCall { tool_call_id, tool_slug, arguments, .. } = call;
        let segment = match self.writer.waiting_tool(&tool_call_id).await? {
            Some(segment) => segment,
            None => {
                let segment = self.writer.tool(&tool_call_id, &tool_slug, Opening::default()).await?;
                segment.arguments(&arguments).await?;
                segment.arguments_complete().await?;
                segment
            }
        };
        Ok(RecordedCall { tool_call_id, tool_slug, arguments, segment })
    }
}

/// Puts the calls of the log into the conversation: over what it says of them, or behind it where it lacks them. What it says
/// of their results is nobody's to say yet.
fn record<'a>(turns: &mut Vec<Turn>, calls: impl Iterator<Item = &'a RecordedCall>) {
    let mut missing = Vec::new();
    for recorded in calls {
        let id = &recorded.tool_call_id;
        match call_mut(turns, id) {
            Some(call) => {
                call.name.clone_from(&recorded.tool_slug);
                call.arguments.clone_from(&recorded.arguments);
                let call = call.clone();
                if let Some(result) = result_mut(turns, id) {
                    *result = unanswered(&call);
                }
            }
            None => missing.push(MadeCall {
                id: id.clone(),
                name: recorded.tool_slug.clone(),
                arguments: recorded.arguments.clone(),
                opaque: None,
            }),
        }
    }
    if !missing.is_empty() {
        let results = missing.iter().map(unanswered).collect();
        turns.push(Turn::Assistant { text: String::new(), calls: missing });
        turns.push(Turn::Results(results));
    }
}

fn call_mut<'a>(turns: &'a mut [Turn], id: &str) -> Option<&'a mut MadeCall> {
    turns.iter_mut().find_map(|turn| match turn {
        Turn::Assistant { calls, .. } => calls.iter_mut().find(|call| call.id == id),
        _ => None,
    })
}

fn result_mut<'a>(turns: &'a mut [Turn], id: &str) -> Option<&'a mut CallResult> {
    turns.iter_mut().find_map(|turn| match turn {
        Turn::Results(results) => results.iter_mut().find(|result| result.id == id),
        _ => None,
    })
}

fn is_answered(turns: &[Turn], id: &str) -> bool {
    let mut results = turns.iter().filter_map(|turn| match turn {
        Turn::Results(results) => results.iter().find(|result| result.id == id),
        _ => None,
    });
    let placeholder = |result: &CallResult| {
        let call =
            MadeCall { id: result.id.clone(), name: result.name.clone(), arguments: String::new(), opaque: None };
        *result == unanswered(&call)
    };
    results.next().is_some_and(|result| !placeholder(result))
}
