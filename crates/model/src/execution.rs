//! The tool calls of one answer: executed, asked about, or left to the application.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use runwire_agui::Interrupt;
use runwire_bridge::{Ending, Failure, ToolOutput, kind};
use runwire_engine::{RunWriter, Segment, WriteError};
use runwire_frame::{ErrorCode, SegmentError, SegmentStatus};
use serde_json::Map;

use crate::answer::LiveCall;
use crate::approval::{Asked, interrupt};
use crate::call::CallResult;
use crate::tool::{Arguments, Callee, OwnTool, ToolReturn, ToolUse, Toolbox, Within};
use crate::work::result_of;

/// So many calls are executed at once.
const AT_ONCE: usize = 16;

/// What the calls of one answer came to.
pub(crate) struct Round {
    /// The results of those that were executed, in the order in which they were made.
    pub results: Vec<CallResult>,
    /// What has to be asked before the others can be.
    pub asked: Vec<Interrupt>,
    /// Whether some are the application's.
    pub frontend: bool,
}

/// A call that is executed now.
pub(crate) struct Due {
    pub id: String,
    pub name: String,
    pub segment: Segment<kind::Tool>,
    pub what: What,
}

/// What is done about a call.
pub(crate) enum What {
    /// The tool is called.
    Call(Arc<dyn OwnTool>, Arguments),
    /// It is not, and the model is told why.
    Tell(String),
    /// It was, by an earlier attempt at the exchange, and worked: what it returned is in the log.
    Done(ToolOutput),
}

/// Executes those calls that can be. What needs an approval waits; what is the application's stays open.
pub(crate) async fn execute(writer: &RunWriter, tools: &Toolbox, calls: Vec<LiveCall>) -> Result<Round, Failure> {
    let mut due = Vec::new();
    let mut asked = Vec::new();
    let mut frontend = false;
    for call in calls {
        let LiveCall { id, name, arguments, segment, .. } = call;
        let what = match tools.callee(&name) {
            Callee::Frontend => {
                frontend = true;
                continue;
            }
            Callee::Nobody => What::Tell(tools.no_such_tool(&name)),
            Callee::Own(tool) => match Arguments::parse(&arguments) {
                Err(problem) => What::Tell(problem),
                Ok(arguments) if tool.approval().is_needed(&arguments) => {
                    let kept = match writer.arguments_as_kept(arguments.as_json()) {
                        Cow::Borrowed(_) => None,
                        Cow::Owned(kept) => {
                            Some(Arguments::parse(&kept).expect("what is taken out of a JSON object leaves one"))
                        }
                    };
                    asked.push(interrupt(&id, &name, Asked { arguments, kept }, &tool.spec().parameters));
                    continue;
                }
                Ok(arguments) => What::Call(tool.clone(), arguments),
            },
        };
        due.push(Due { id, name, segment, what });
    }
    let results = execute_all(due).await?;
    Ok(Round { results, asked, frontend })
}

/// Executes these, several at once, and writes each result as soon as it is there.
///
/// # Errors
/// When a tool failed whose failure is the run's, after the others have ended.
pub(crate) async fn execute_all(due: Vec<Due>) -> Result<Vec<CallResult>, Failure> {
    let executed: Vec<Result<Executed, WriteError>> =
        stream::iter(due.into_iter().map(execute_one)).buffered(AT_ONCE).collect().await;
    let mut results = Vec::new();
    let mut failure = None;
    for one in executed {
        let one = one?;
        failure = failure.or(one.failure);
        results.push(one.result);
    }
    match failure {
        Some(failure) => Err(failure),
        None => Ok(results),
    }
}

struct Executed {
    result: CallResult,
    /// The run's, when the tool is one that it cannot do without.
    failure: Option<Failure>,
}

async fn execute_one(due: Due) -> Result<Executed, WriteError> {
    let Due { id, name, segment, what } = due;
    let (returned, required) = match what {
        What::Tell(why) => (ToolReturn::failed(why), false),
        What::Done(output) => (ToolReturn::worked(output), false),
        What::Call(tool, arguments) => {
            let within = Within { run: segment.run().clone(), segment: segment.id().clone() };
            let call = ToolUse { tool_call_id: id.clone(), arguments, within: Some(within) };
            (tool.execute(call).await, tool.required())
        }
    };
    let ToolReturn { ok, output, timed_out, retry_after } = returned;
    let text = told(&output);
    let answered = segment.result(ok, &output).await?;
    let mut failure = None;
    if ok {
        answered.end(Ending::completed()).await?;
    } else {
        let code = if timed_out { ErrorCode::Timeout } else { ErrorCode::ToolError };
        let error = SegmentError { code, message: text.clone(), extra: Map::new() };
        answered.end(Ending { error: Some(error), ..Ending::with_status(SegmentStatus::Failed) }).await?;
        failure = required.then(|| Failure {
            retryable: timed_out || retry_after.is_some(),
            retry_after,
            ..Failure::new(code, format!("the tool `{name}`, which the agent cannot do without, failed: {text}"))
        });
    }
    Ok(Executed { result: result_of(&id, &name, ok, text), failure })
}

/// A result as models are given it: text, with a word for each part that is none.
fn told(output: &ToolOutput) -> String {
    match output {
        ToolOutput::Text(text) => text.clone(),
        ToolOutput::Parts(parts) => {
            let part = |part: &serde_json::Value| match part["text"].as_str() {
                Some(text) if part["type"] == "text" => text.to_owned(),
                _ => format!("[{}, shown to the person]", part["type"].as_str().unwrap_or("part")),
            };
            parts.iter().map(part).collect::<Vec<_>>().join("\n")
        }
    }
}
