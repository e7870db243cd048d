//! What a foreign agent says in AG-UI, written into its run's log: the part that all drivers of such agents share, however
//! the events come.
//!
//! Everything goes through the whole consumer pipeline before a byte of it reaches the log: what breaks AG-UI's rules fails
//! this run with `CHANNEL_ERROR`, naming the rule and the event, and what was recorded before stays.

use std::collections::HashMap;

use runwire_agui::proto::ProtoEvent;
use runwire_agui::{
    AgentVersion, Consumer, ConsumerOptions, Event, Outgoing, OutgoingError, OutgoingWarning, Pending, PreparedInput,
    Rejected, RunAgentInput,
};
use runwire_bridge::{ExchangeEnd, Failure, Truncation, Upstream, UpstreamStep, may_pass};
use runwire_frame::{ErrorCode, MAX_VALUE_DEPTH, NoticeLevel, json_depth};
use serde_json::{Map, Value, json};

use crate::driver::{Exchange, Starting};
use crate::writer::{Foreign, RunWriter, WriteError};

/// The largest event, in bytes, that is taken of an agent that is not told otherwise.
pub(crate) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// How many warnings about one stream are told. One whose every event is of a newer version says nothing new after these.
const MOST_TOLD: usize = 1000;

/// How many bytes of events, as JSON, a stream may have of earlier runs beside restatements of the messages and the state.
const MAX_REPLAYED_BYTES: usize = 64 * 1024 * 1024;

/// What stands for one event in a stream. It is judged by the consumer, alike for all forms.
pub(crate) enum Carried {
    Json(String),
    Protobuf(ProtoEvent),
}

impl Carried {
    /// How many levels of JSON the event nests.
    fn depth(&self) -> usize {
        match self {
            Self::Json(json) => json_depth(json.as_bytes()),
            Self::Protobuf(ProtoEvent::Event(value)) => depth(value),
            Self::Protobuf(ProtoEvent::Unknown { .. }) => 0,
        }
    }

    /// Puts it into the consumer.
    fn push_to(self, consumer: &mut Consumer) -> Result<Vec<Event>, Rejected> {
        match self {
            Self::Json(json) => consumer.push_json(json.as_bytes()).map(Iterator::collect),
            Self::Protobuf(event) => consumer.push_proto(event).map(Iterator::collect),
        }
    }
}

/// Whoever reads the stream bounds how deep this goes.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// The input breaks a rule that a client owes its agent.
#[derive(Debug, thiserror::Error)]
#[error("the run input was not sent to {who}: {error}")]
pub(crate) struct NotSent {
    who: &'static str,
    error: OutgoingError,
}

impl From<NotSent> for Failure {
    fn from(error: NotSent) -> Failure {
        broken_rule(error.to_string())
    }
}

/// An exchange before anything of it was said: the input as it is sent, and the run that is to begin.
pub(crate) struct Prepared {
    /// The input, held to what a client owes.
    pub input: RunAgentInput,
    /// What is to be told about it once the run has begun.
    unsaid: Vec<OutgoingWarning>,
    exchange: Exchange,
    starting: Starting,
}

impl Prepared {
    /// Makes the input fit to be sent to an agent of this version. Nothing is sent of one that breaks a client's rules.
    /// Answers that nobody asked for are not in it any more: the engine has left them out. `who` is whom it is for, as it
    /// is told: "the upstream agent".
    ///
    /// # Errors
    /// When the input cannot be sent: the run fails by it.
    pub(crate) fn new(
        who: &'static str,
        agent: AgentVersion,
        exchange: Exchange,
        starting: Starting,
    ) -> Result<Prepared, NotSent> {
        let pending = exchange.resumed.then(|| {
            Pending::new().with_interrupts(exchange.interrupts.clone()).on_thread(exchange.input.thread_id.as_str())
        });
        let outgoing = Outgoing {
            agent,
            pending: pending.as_ref(),
            // The answers were in time when the engine took them; what happened since does not make them late.
            now_unix_millis: i64::MIN,
        };
        let PreparedInput { input, warnings: unsaid } =
            outgoing.prepare_input(&exchange.input).map_err(|error| NotSent { who, error })?;
        for warning in &unsaid {
            let exchange_id = exchange.input.run_id.as_str();
            tracing::warn!(run_id = exchange.run_id, exchange_id, "the input for {who}: {warning}");
        }
        Ok(Prepared { input, unsaid, exchange, starting })
    }

    /// Begins the run at once, for an agent that says nothing of its beginning.
    ///
    /// # Errors
    /// When the run cannot be written.
    pub(crate) async fn begin(self) -> Result<RunWriter, WriteError> {
        let writer = self.starting.begin(None);
        tell(&writer, self.unsaid).await?;
        Ok(writer)
    }
}

/// What was done to the input on its way, in the log.
async fn tell(writer: &RunWriter, unsaid: Vec<OutgoingWarning>) -> Result<(), WriteError> {
    for warning in unsaid {
        let attributes = Map::from_iter([
            ("rule".to_owned(), json!(warning.rule.as_str())),
            ("message".to_owned(), json!(warning.message)),
            ("path".to_owned(), json!(warning.path)),
        ]);
        writer.notice(NoticeLevel::Warning, "upstream_input_warning", &warning.message, Some(attributes)).await?;
    }
    Ok(())
}

/// Writes what a foreign agent says into the run's log.
pub(crate) struct Relay {
    /// Who speaks, as it is told: "the upstream agent".
    who: &'static str,
    consumer: Consumer,
    starting: Option<Starting>,
    writer: Option<(RunWriter, Foreign)>,
    unsaid: Vec<OutgoingWarning>,
    upstream: Upstream,
    exchange: Exchange,
    /// Bytes of arguments of the tool calls that are open. A call's arguments are repeated whole in one frame.
    arguments: HashMap<String, usize>,
    max_arguments: usize,
    /// How many more warnings are told.
    still_told: usize,
    /// Bytes of events of earlier runs.
    replayed: usize,
}

impl Relay {
    /// Takes the answer of an agent of this version to what was prepared for it. One tool call may have so many bytes of
    /// arguments, and one restatement of earlier runs altogether.
    pub(crate) fn new(who: &'static str, agent: AgentVersion, prepared: Prepared, max_arguments: usize) -> Relay {
        let Prepared { input, unsaid, exchange, starting } = prepared;
        Relay {
            who,
            consumer: Consumer::new(ConsumerOptions { input: Some(input) }).of_agent(agent),
            starting: Some(starting),
            writer: None,
            unsaid,
            upstream: Upstream::new(exchange.input.clone()),
            exchange,
            arguments: HashMap::new(),
            max_arguments,
            still_told: MOST_TOLD,
            replayed: 0,
        }
    }

    /// Whether the run has ended, as far as the stream has told. A failure may still surface.
    pub(crate) fn has_ended(&self) -> bool {
        self.upstream.has_ended()
    }

    /// Which event comes next, as rules count them.
    pub(crate) fn next_event(&self) -> usize {
        self.consumer.event_count()
    }

    /// Takes the next event. Waits while too much of the run is on its way to the store. Dropped in between, not all of what
    /// the event says was written, and nothing more is to be pushed.
    ///
    /// # Errors
    /// When it breaks a rule, or the run cannot be written. Then the run has failed, and nothing more is to be pushed.
    pub(crate) async fn push(&mut self, event: Carried) -> Result<(), Failure> {
        if event.depth() > MAX_VALUE_DEPTH {
            return Err(broken_rule(format!(
                "event {} of {} nests more than {MAX_VALUE_DEPTH} levels of JSON, and no frame can hold that",
                self.next_event(),
                self.who
            )));
        }
        let (events, rejected) = match event.push_to(&mut self.consumer) {
            Ok(events) => (events, None),
            Err(rejected) => (rejected.delivered, Some(rejected.violation)),
        };
        for event in events {
            self.take(event).await?;
        }
        self.warn().await?;
        match rejected {
            None => Ok(()),
            Some(found) => Err(broken_rule(format!(
                "{} broke AG-UI rule `{}` at event {}: {}",
                self.who,
                found.rule.as_str(),
                found.event,
                found.message
            ))),
        }
    }

    /// Waits until everything that was taken is in the store.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn flush(&self) -> Result<(), WriteError> {
        match &self.writer {
            Some((writer, _)) => writer.flush().await,
            None => Ok(()),
        }
    }

    /// The stream is over: how the run ended in it. A truncation is the channel's fault.
    pub(crate) fn finish(self) -> ExchangeEnd {
        self.upstream.finish()
    }

    /// The stream is over: how the run ended in it, or what is missing of it.
    pub(crate) fn reported(self) -> Result<ExchangeEnd, Truncation> {
        self.upstream.reported()
    }

    async fn take(&mut self, event: Event) -> Result<(), Failure> {
        if let Some(too_much) = self.weigh_replayed(&event) {
            return Err(too_much);
        }
        match self.upstream.push(event) {
            UpstreamStep::Hold => {}
            UpstreamStep::Begin(started, replayed) => {
                if let Some(too_much) = replayed.snapshots.iter().find_map(|snapshot| self.weigh_restated(snapshot)) {
                    return Err(too_much);
                }
                let Some(starting) = self.starting.take() else { return Ok(()) };
                let writer = starting.begin(Some(&started));
                let mut foreign = writer.ingest(&self.exchange.input)?;
                writer.record_replayed(&mut foreign, &replayed, &self.exchange.input).await?;
                tell(&writer, std::mem::take(&mut self.unsaid)).await?;
                self.writer = Some((writer, foreign));
            }
            UpstreamStep::Record(event) => {
                if let Some(too_much) = self.weigh(&event) {
                    return Err(too_much);
                }
                if let Some((writer, foreign)) = &mut self.writer {
                    writer.record(foreign, &event).await?;
                }
            }
        }
        Ok(())
    }

    /// Refuses to follow earlier runs without end. What restates a whole takes the place of what was there.
    fn weigh_replayed(&mut self, event: &Event) -> Option<Failure> {
        let belongs = match event {
            Event::MessagesSnapshot(_) | Event::StateSnapshot(_) => false,
            // Each may echo messages that no other has. What begins behind the requested run is not followed.
            Event::RunStarted(started) => self.starting.is_some() && started.run_id != self.exchange.input.run_id,
            _ => self.upstream.is_in_earlier_run(),
        };
        if !belongs {
            return None;
        }
        self.replayed += event.to_json_string().len();
        (self.replayed > MAX_REPLAYED_BYTES).then(|| {
            broken_rule(format!(
                "{} replayed more than {MAX_REPLAYED_BYTES} bytes of earlier runs as they came; history is restated as \
                 snapshots",
                self.who
            ))
        })
    }

    /// Refuses a restatement that no frame should have to hold, or that none could: changes may have made it so.
    fn weigh_restated(&self, snapshot: &Event) -> Option<Failure> {
        let json = snapshot.to_json_string();
        let what = match (json.len() > self.max_arguments, json_depth(json.as_bytes()) > MAX_VALUE_DEPTH) {
            (false, false) => return None,
            (true, _) => format!("has more than {} bytes", self.max_arguments),
            (false, true) => format!("nests more than {MAX_VALUE_DEPTH} levels of JSON"),
        };
        let event_type = snapshot.event_type();
        Some(broken_rule(format!("what {} replayed of earlier runs, as one {event_type}, {what}", self.who)))
    }

    /// Refuses arguments that no frame should have to hold.
    fn weigh(&mut self, event: &Event) -> Option<Failure> {
        match event {
            Event::ToolCallArgs(args) => {
                let bytes = self.arguments.entry(args.tool_call_id.clone()).or_default();
                *bytes += args.delta.len();
                if *bytes > self.max_arguments {
                    return Some(broken_rule(format!(
                        "the arguments of tool call `{}` have more than {} bytes",
                        args.tool_call_id, self.max_arguments
                    )));
                }
            }
            Event::ToolCallEnd(end) => {
                self.arguments.remove(&end.tool_call_id);
            }
            _ => {}
        }
        None
    }

    /// What was dropped or stripped on the way in is told, in the log as well as to the operator. The consumer bounds how much
    /// that is of one event; of a stream it is bounded here, so that what an agent can have written stays in proportion.
    async fn warn(&mut self) -> Result<(), Failure> {
        for warning in self.consumer.take_warnings() {
            if self.still_told == 0 {
                return Ok(());
            }
            self.still_told -= 1;
            let attributes = match serde_json::to_value(&warning) {
                Ok(Value::Object(attributes)) => Some(attributes),
                _ => None,
            };
            self.tell_of_stream(&warning.to_string(), attributes).await?;
            if self.still_told == 0 {
                let last = format!("{MOST_TOLD} warnings about this stream were told; the rest is not told");
                self.tell_of_stream(&last, None).await?;
            }
        }
        Ok(())
    }

    async fn tell_of_stream(&self, warning: &str, attributes: Option<Map<String, Value>>) -> Result<(), WriteError> {
        let (run_id, exchange_id) = (self.exchange.run_id.as_str(), self.exchange.input.run_id.as_str());
        tracing::warn!(run_id, exchange_id, "the stream of {}: {warning}", self.who);
        match &self.writer {
            Some((writer, _)) => writer.notice(NoticeLevel::Warning, "upstream_warning", warning, attributes).await,
            None => Ok(()),
        }
    }
}

/// How a run ended, as its agent reported it. A failure that may pass can be tried again when what was done before may be done
/// twice.
pub(crate) fn retryable_if(idempotent: bool, end: ExchangeEnd) -> ExchangeEnd {
    match end {
        ExchangeEnd::Failed(failure) if idempotent => {
            ExchangeEnd::Failed(Failure { retryable: may_pass(failure.code), ..failure })
        }
        end => end,
    }
}

/// A foreign agent, or what is to be sent to it, breaks a rule.
pub(crate) fn broken_rule(message: String) -> Failure {
    Failure::new(ErrorCode::ChannelError, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_depth_of_a_value_is_that_of_its_text() {
        for json in ["1", "[]", r#"{"a":[1,{"b":[]}],"c":{}}"#] {
            assert_eq!(depth(&serde_json::from_str(json).unwrap()), json_depth(json.as_bytes()), "{json}");
        }
    }
}
