//! `demo`: an agent that needs no model, no network and no key, and does a small real piece of work: it measures the
//! prompt with a tool and tells what it found.
//!
//! It shows everything that a run can hold — reasoning, text, a tool call whose arguments fill in, a step, state, usage —
//! at the pace of a model, so that a client can be built and tested against it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use runwire_agui::{
    AgentCapabilities, Content, ContentPart, HumanInTheLoopCapabilities, Message, ReasoningCapabilities, RunAgentInput,
    StateCapabilities, Tool, ToolsCapabilities,
};
use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, Opening, Question, Suspension, ToolOutput};
use runwire_frame::{NoticeLevel, SegmentStatus, Usage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::driver::{Answer, Driver, Exchange, Starting};
use crate::segment::Segment;
use crate::writer::{RunWriter, WriteError};

/// How the demo agent speaks.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The time between two pieces of output. Default 30 ms; zero is as fast as the log takes them.
    pub pace: Duration,
    /// How often the closing passage is repeated, for a long run. Default 1.
    pub repeat: u32,
}

impl Default for DemoOptions {
    fn default() -> DemoOptions {
        DemoOptions { pace: Duration::from_millis(30), repeat: 1 }
    }
}

/// The built-in agent.
#[derive(Clone, Debug, Default)]
pub struct DemoDriver {
    options: DemoOptions,
}

impl DemoDriver {
    /// An agent that speaks so.
    pub fn new(options: DemoOptions) -> DemoDriver {
        DemoDriver { options }
    }
}

impl Driver for DemoDriver {
    fn kind(&self) -> &'static str {
        "demo"
    }

    fn capabilities(&self) -> AgentCapabilities {
        let parameters = json!({
            "type": "object",
            "properties": { "text": { "type": "string" } },
            "required": ["text"],
        });
        let mut measure = Tool::new("measure_text", "Counts the characters and words of a text");
        measure.parameters = Some(parameters);
        AgentCapabilities {
            tools: Some(ToolsCapabilities {
                supported: Some(true),
                items: Some(vec![measure]),
                parallel_calls: Some(false),
                client_provided: Some(false),
            }),
            state: Some(StateCapabilities {
                snapshots: Some(true),
                deltas: Some(true),
                memory: Some(false),
                persistent_state: Some(false),
            }),
            reasoning: Some(ReasoningCapabilities {
                supported: Some(true),
                streaming: Some(true),
                encrypted: Some(false),
            }),
            human_in_the_loop: Some(HumanInTheLoopCapabilities {
                supported: Some(true),
                approvals: Some(true),
                interventions: Some(false),
                feedback: Some(false),
                interrupts: Some(true),
                ..HumanInTheLoopCapabilities::default()
            }),
            ..AgentCapabilities::default()
        }
    }

    fn execute(&self, exchange: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let pace = Pace { every: self.options.pace, stop: exchange.stop.clone() };
        let repeat = self.options.repeat;
        Box::pin(async move {
            let prompt = exchange.prompt();
            let skipped = parts_without_text(&exchange.input);
            let writer = starting.begin(None);
            if skipped > 0 {
                let what = format!("{skipped} parts of the message were skipped: this agent reads text only");
                writer.notice(NoticeLevel::Warning, "parts_skipped", &what, None).await?;
            }
            let told = match exchange.answers().first() {
                Some(answer) => go_on(&writer, &pace, &prompt, answer, repeat).await.map(Said::Result),
                // Ids of tool calls are the conversation's, so they must not repeat from one run to the next.
                None => begin(&writer, &pace, &prompt, &format!("call_{}", exchange.input.run_id), repeat).await,
            };
            match told {
                Ok(Said::Result(result)) => Ok(ExchangeEnd::Completed(Completion {
                    agui: Some(serde_json::Map::from_iter([("result".to_owned(), result)])),
                    ..Completion::default()
                })),
                Ok(Said::Asks(suspension)) => Ok(ExchangeEnd::Suspended(suspension)),
                Err(Interrupted::Stopped) => Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None }),
                Err(Interrupted::Write(error)) => Err(error.into()),
            }
        })
    }
}

/// What an exchange came to.
enum Said {
    Result(Value),
    Asks(Suspension),
}

enum Interrupted {
    Stopped,
    Write(WriteError),
}

impl From<WriteError> for Interrupted {
    fn from(error: WriteError) -> Interrupted {
        Interrupted::Write(error)
    }
}

/// Waits between pieces, and hears a stop.
struct Pace {
    every: Duration,
    stop: CancellationToken,
}

impl Pace {
    async fn beat(&self) -> Result<(), Interrupted> {
        if self.stop.is_cancelled() {
            return Err(Interrupted::Stopped);
        }
        if self.every.is_zero() {
            tokio::task::yield_now().await;
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(self.every) => Ok(()),
            () = self.stop.cancelled() => Err(Interrupted::Stopped),
        }
    }
}

/// What the agent finds out about a prompt: the work of its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measure {
    characters: usize,
    words: usize,
    longest_word: usize,
}

fn measure(text: &str) -> Measure {
    Measure {
        characters: text.chars().count(),
        words: text.split_whitespace().count(),
        longest_word: text.split_whitespace().map(|w| w.chars().count()).max().unwrap_or(0),
    }
}

/// Whether the person wants to be asked before the tool runs.
fn wants_to_approve(prompt: &str) -> bool {
    prompt.to_lowercase().contains("approve")
}

async fn begin(writer: &RunWriter, pace: &Pace, prompt: &str, call_id: &str, repeat: u32) -> Result<Said, Interrupted> {
    writer.state_snapshot(json!({ "phase": "reading", "progress": 0.0, "prompt": prompt })).await?;
    let step = writer.step(Opening::named("measure the prompt")).await?;

    let model = writer.model(model_opening().inside(step.id())).await?;
    let reasoning = writer.reasoning(Opening::default().inside(model.id())).await?;
    let thought = "I was asked something, and I have no model to answer with. What I can do is look closely at the \
                   words themselves: count them with a tool, and report exactly what the tool says.";
    let mut written = 0;
    for piece in pieces(thought) {
        pace.beat().await?;
        reasoning.thinking(piece).await?;
        written += 1;
    }
    reasoning.end(Ending::completed()).await?;
    let thought_tokens = written;

    let tool = writer.tool(call_id, "measure_text", Opening::default().inside(model.id())).await?;
    let arguments = json!({ "text": prompt }).to_string();
    for piece in slices(&arguments, 12) {
        pace.beat().await?;
        tool.arguments(piece).await?;
        written += 1;
    }
    tool.arguments_complete().await?;
    model.end(usage(prompt, written, Some(thought_tokens), "tool_calls")).await?;

    if wants_to_approve(prompt) {
        // The call stays open, and so does its step: the answer goes on with them.
        let question = Question::approval(call_id).message("May I measure your prompt with `measure_text`?");
        return Ok(Said::Asks(Suspension::asking(question, [])));
    }
    pace.beat().await?;
    let result = use_tool(writer, tool, prompt).await?;
    step.end(Ending::completed()).await?;
    conclude(writer, pace, prompt, Some(measure(prompt)), repeat).await?;
    Ok(Said::Result(result))
}

/// The tool was approved, or not. Either way the run goes on to its end.
async fn go_on(
    writer: &RunWriter,
    pace: &Pace,
    prompt: &str,
    answer: &Answer,
    repeat: u32,
) -> Result<Value, Interrupted> {
    let waiting = match &answer.call {
        Some(call) => writer.waiting_tool(&call.tool_call_id).await?,
        None => None,
    };
    let Some(tool) = waiting else {
        conclude(writer, pace, prompt, None, repeat).await?;
        return Ok(Value::Null);
    };
    if !answer.approved() {
        let denied = ToolOutput::Text("the call was not approved, and the tool did not run".to_owned());
        tool.result(false, &denied).await?.end(Ending::with_status(SegmentStatus::Cancelled)).await?;
        conclude(writer, pace, prompt, None, repeat).await?;
        return Ok(json!({ "approved": false }));
    }
    let result = use_tool(writer, tool, prompt).await?;
    conclude(writer, pace, prompt, Some(measure(prompt)), repeat).await?;
    Ok(result)
}

/// Runs the tool.
async fn use_tool(
    writer: &RunWriter,
    tool: Segment<runwire_bridge::kind::Tool>,
    prompt: &str,
) -> Result<Value, Interrupted> {
    let found = measure(prompt);
    let result = json!({
        "characters": found.characters,
        "words": found.words,
        "longest_word": found.longest_word,
    });
    tool.result(true, &ToolOutput::Text(result.to_string())).await?.end(Ending::completed()).await?;
    let change = json!([
        { "op": "replace", "path": "/phase", "value": "answering" },
        { "op": "replace", "path": "/progress", "value": 0.5 },
        { "op": "add", "path": "/measured", "value": result },
    ]);
    writer.state_delta(change).await?;
    Ok(result)
}

/// The answer, and the end of the work.
async fn conclude(
    writer: &RunWriter,
    pace: &Pace,
    prompt: &str,
    found: Option<Measure>,
    repeat: u32,
) -> Result<(), Interrupted> {
    let model = writer.model(model_opening()).await?;
    let message = writer.message(Opening::default().inside(model.id())).await?;
    let written = say(&message, pace, found, repeat).await?;
    message.end(Ending::completed()).await?;
    model.end(usage(prompt, written, None, "stop")).await?;

    let change = json!([
        { "op": "replace", "path": "/phase", "value": "done" },
        { "op": "replace", "path": "/progress", "value": 1.0 },
    ]);
    writer.state_delta(change).await?;
    Ok(())
}

async fn say(
    message: &Segment<runwire_bridge::kind::Message>,
    pace: &Pace,
    found: Option<Measure>,
    repeat: u32,
) -> Result<u64, Interrupted> {
    let mut written = 0;
    let answer = match found {
        Some(found) => format!(
            "Your prompt has {} characters in {} words, the longest of them {} characters long. ",
            found.characters, found.words, found.longest_word
        ),
        None => "You did not let me measure your prompt, so I have nothing to report. ".to_owned(),
    };
    let passage = "Every piece of this sentence was written to the log before you saw it, so you can close the \
                   connection at any point, come back, and read on exactly where you stopped — nothing missing, \
                   nothing twice. ";
    for piece in pieces(&answer) {
        pace.beat().await?;
        message.text(piece).await?;
        written += 1;
    }
    for _ in 0..repeat {
        for piece in pieces(passage) {
            pace.beat().await?;
            message.text(piece).await?;
            written += 1;
        }
    }
    Ok(written)
}

fn model_opening() -> Opening {
    Opening { model_ref: Some("runwire/demo".to_owned()), ..Opening::named("demo") }
}

/// The demo's "model" has one token for each word of the prompt and for each piece that it writes: counted, not made up.
fn usage(prompt: &str, written: u64, reasoning: Option<u64>, finish_reason: &str) -> Ending {
    let input = prompt.split_whitespace().count() as u64;
    let usage = Usage {
        provider: Some("runwire".to_owned()),
        model: Some("demo".to_owned()),
        input_tokens: Some(input),
        output_tokens: Some(written),
        total_tokens: Some(input + written),
        reasoning_tokens: reasoning,
        ..Usage::default()
    };
    Ending { usage: Some(usage), finish_reason: Some(finish_reason.to_owned()), ..Ending::completed() }
}

/// How many parts of what the user said last are no text.
fn parts_without_text(input: &RunAgentInput) -> usize {
    let last = input.messages.iter().rev().find_map(|message| match message {
        Message::User(user) => Some(&user.content),
        _ => None,
    });
    match last {
        Some(Content::Parts(parts)) => parts.iter().filter(|part| !matches!(part, ContentPart::Text(_))).count(),
        Some(Content::Text(_)) | None => 0,
    }
}

/// Words with the space that follows them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// Slices of at most so many characters, cut between characters.
fn slices(text: &str, characters: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(characters).map_or(rest.len(), |(i, _)| i);
        let (slice, after) = rest.split_at(end);
        rest = after;
        Some(slice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_measures_what_it_is_given() {
        assert_eq!(measure("héllo wide  world"), Measure { characters: 17, words: 3, longest_word: 5 });
        assert_eq!(measure(""), Measure { characters: 0, words: 0, longest_word: 0 });
    }

    #[test]
    fn slices_and_pieces_lose_nothing() {
        for text in ["", "a", "👩‍👩‍👧 família and a longer tail of text"] {
            assert_eq!(slices(text, 3).collect::<String>(), text);
            assert_eq!(pieces(text).collect::<String>(), text);
        }
    }
}
