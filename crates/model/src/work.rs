//! One exchange of a model agent: calls the model, executes the tools that it calls, and goes on until it has answered, or
//! until somebody else has to.

use std::collections::HashSet;

use runwire_agui::Interrupt;
use runwire_bridge::{Completion, ExchangeEnd, Failure, Suspension};
use runwire_engine::{Exchange, RunWriter, Starting};
use runwire_frame::{ErrorCode, NoticeLevel, SuspendKind};
use serde_json::{Map, Value, json};

use crate::answer::{Answer, NoAnswer, Patience, ask};
use crate::call::{CallResult, MadeCall, ModelRequest, ToolSpec, Turn};
use crate::compaction::{Compaction, compact, estimate};
use crate::driver::Shared;
use crate::execution::{Round, execute};
use crate::history::History;
use crate::resumed::Resumed;
use crate::tool::{Listed, Toolbox};

/// An exchange that is being executed.
pub(crate) struct Work {
    pub exchange: Exchange,
    pub writer: RunWriter,
    pub tools: Toolbox,
    pub request: ModelRequest,
    /// The ids of the conversation's calls.
    ids: HashSet<String>,
}

/// Executes an exchange to its end.
pub(crate) async fn work(shared: &Shared, exchange: Exchange, starting: Starting) -> Result<ExchangeEnd, Failure> {
    let writer = starting.begin(None);
    let history = History::of(&exchange.input, &*shared.model);
    tell_skipped(&writer, &history).await?;
    let tools = toolbox(shared, &exchange, &writer).await?;
    let options = &shared.options;
    let request = ModelRequest {
        system: system(shared, &exchange, &history.system),
        turns: history.turns,
        tools: tools.specs(),
        max_output_tokens: options.max_output_tokens,
        temperature: options.temperature,
        extra: options.request.clone(),
    };
    let mut work = Work { exchange, writer, tools, request, ids: HashSet::new() };
    if work.exchange.resumed {
        let Resumed { waits } = work.go_on().await?;
        if waits {
            return Ok(ExchangeEnd::Completed(Completion::default()));
        }
    }
    let made = work.request.turns.iter().flat_map(|turn| match turn {
        Turn::Assistant { calls, .. } => calls.as_slice(),
        _ => &[],
    });
    work.ids = made.map(|call| call.id.clone()).collect();
    for _ in 0..options.max_model_calls {
        let answer = work.ask(shared).await?;
        let Answer { text, calls } = answer;
        if calls.is_empty() {
            return Ok(ExchangeEnd::Completed(Completion::default()));
        }
        let made = calls.iter().map(|call| MadeCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            opaque: call.opaque.clone(),
        });
        let turn = Turn::Assistant { text, calls: made.collect() };
        let Round { results, asked, frontend } = execute(&work.writer, &work.tools, calls).await?;
        if !asked.is_empty() {
            return Ok(suspended(&asked));
        }
        if frontend {
            // The calls stay without a result: whoever continues the thread brings it.
            return Ok(ExchangeEnd::Completed(Completion::default()));
        }
        work.request.turns.push(turn);
        work.request.turns.push(Turn::Results(results));
    }
    let message = format!(
        "the run was stopped after {} model calls in one exchange, which is the limit of its agent (`max_model_calls`)",
        options.max_model_calls
    );
    work.writer.stopping_because(ErrorCode::BudgetExceeded, &message).await?;
    Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None })
}

impl Work {
    /// Asks the model, or one of those that stand in for it, with as much of the conversation as fits.
    async fn ask(&mut self, shared: &Shared) -> Result<Answer, Failure> {
        let options = &shared.options;
        if let Some(limit) = options.context_tokens
            && let Some(compaction) = compact(&mut self.request, limit)
        {
            self.tell_compaction(compaction, "context_tokens").await?;
        }
        let patience = Patience { call: options.call_timeout, idle: options.idle_timeout };
        let mut fallbacks = options.fallback_models.iter();
        let mut name = &options.model;
        loop {
            let answer = ask(&*shared.model, name, &self.request, patience, &self.writer, &mut self.ids).await;
            let (error, wrote) = match answer {
                Ok(answer) => return Ok(answer),
                Err(NoAnswer::Write(error)) => return Err(error.into()),
                Err(NoAnswer::Failed { error, wrote }) => (error, wrote),
            };
            if error.code == ErrorCode::ContextOverflow && !wrote {
                // How long is too long is the provider's to say; half of it is tried.
                let half = estimate(&self.request) / 2;
                match compact(&mut self.request, half) {
                    Some(compaction) => self.tell_compaction(compaction, "provider").await?,
                    None => return Err(error.into()),
                }
                continue;
            }
            match fallbacks.next() {
                Some(next) if error.retryable && !wrote => {
                    let message = format!("{name} could not be asked, so {next} is: {error}");
                    let attributes = json!({ "from": name, "to": next, "code": error.code.as_str() });
                    self.notice("model_fallback", &message, attributes).await?;
                    name = next;
                }
                _ => return Err(error.into()),
            }
        }
    }

    async fn tell_compaction(&self, compaction: Compaction, reason: &str) -> Result<(), Failure> {
        let message = format!(
            "the conversation is too long for the model, so its oldest {} turns were left out; {} are left",
            compaction.turns_removed, compaction.turns_kept
        );
        let attributes = json!({
            "reason": reason,
            "turns_removed": compaction.turns_removed,
            "turns_kept": compaction.turns_kept,
            "estimated_tokens_before": compaction.estimate_before,
            "estimated_tokens_after": compaction.estimate_after,
        });
        self.notice("compaction_applied", &message, attributes).await
    }

    pub(crate) async fn notice(&self, code: &str, message: &str, attributes: Value) -> Result<(), Failure> {
        notice(&self.writer, code, message, attributes).await
    }
}

pub(crate) async fn notice(writer: &RunWriter, code: &str, message: &str, attributes: Value) -> Result<(), Failure> {
    let attributes = attributes.as_object().cloned();
    Ok(writer.notice(NoticeLevel::Warning, code, message, attributes).await?)
}

async fn tell_skipped(writer: &RunWriter, history: &History) -> Result<(), Failure> {
    if history.parts_skipped > 0 {
        let count = history.parts_skipped;
        let message = format!("{count} parts of the conversation were skipped: the model cannot take them");
        notice(writer, "parts_skipped", &message, json!({ "count": count })).await?;
    }
    if history.results_skipped > 0 {
        let count = history.results_skipped;
        let message = format!("{count} tool results were skipped: the conversation does not hold the calls");
        notice(writer, "results_skipped", &message, json!({ "count": count })).await?;
    }
    Ok(())
}

/// The exchange's tools: those of the configuration first, then those that have to be asked for, then the application's.
async fn toolbox(shared: &Shared, exchange: &Exchange, writer: &RunWriter) -> Result<Toolbox, Failure> {
    let mut tools = Toolbox::default();
    tools.add_own("tools", shared.options.tools.iter().cloned());
    for source in &shared.options.sources {
        match source.tools().await {
            Ok(Listed { tools: found, unknown }) => {
                for sentence in unknown {
                    notice(writer, "tool_unknown", &sentence, json!({ "source": source.name() })).await?;
                }
                tools.add_own(source.name(), found);
            }
            Err(why) if source.required() => {
                let message = format!("the tools of `{}` cannot be had: {why}", source.name());
                return Err(Failure { retryable: true, ..Failure::new(ErrorCode::ToolError, message) });
            }
            Err(why) => {
                let message = format!("the run goes on without the tools of `{}`: {why}", source.name());
                notice(writer, "tools_unavailable", &message, json!({ "source": source.name() })).await?;
            }
        }
    }
    for tool in exchange.input.tools() {
        let parameters = tool.parameters.clone().filter(Value::is_object);
        let spec = ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: parameters.unwrap_or_else(|| json!({ "type": "object", "properties": {} })),
        };
        if !tools.add_frontend(spec) {
            let message = format!("the application's tool `{}` was left out: there is one of that name", tool.name);
            notice(writer, "tool_left_out", &message, json!({ "name": tool.name })).await?;
        }
    }
    Ok(tools)
}

/// The agent's own instructions, then those of the conversation, then what the application tells beside it.
fn system(shared: &Shared, exchange: &Exchange, of_history: &[String]) -> String {
    let mut sections: Vec<String> = Vec::new();
    sections.extend(shared.options.system.clone());
    sections.extend(of_history.iter().cloned());
    let context = exchange.input.context();
    if !context.is_empty() {
        let lines = context.iter().map(|item| format!("- {}: {}", item.description, item.value));
        sections.push(format!("What the application tells you:\n{}", lines.collect::<Vec<_>>().join("\n")));
    }
    if shared.options.send_state {
        sections.push(format!("The application's state as JSON:\n{}", exchange.input.starting_state()));
    }
    sections.retain(|section| !section.trim().is_empty());
    sections.join("\n\n")
}

/// The run waits for these.
pub(crate) fn suspended(asked: &[Interrupt]) -> ExchangeEnd {
    let prompt = match asked {
        [one] => one.message.clone(),
        many => Some(format!("{} tool calls wait to be allowed", many.len())),
    };
    let interrupts = serde_json::to_value(asked).expect("interrupts are plain JSON");
    ExchangeEnd::Suspended(Suspension {
        kind: SuspendKind::Approval,
        contract: Map::from_iter([("interrupts".to_owned(), interrupts)]),
        prompt,
        deadline: None,
        usage: Vec::new(),
        agui: None,
    })
}

/// A result that the model is given.
pub(crate) fn result_of(id: &str, name: &str, ok: bool, text: String) -> CallResult {
    CallResult { id: id.to_owned(), name: name.to_owned(), ok, text }
}
