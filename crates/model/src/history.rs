//! A conversation as AG-UI has it, as turns that a model can be given.
//!
//! Providers are stricter than AG-UI: each call has to have its result, right behind the turn that made it, and nothing else
//! may stand there. Clients keep a call as a message of its own, in the order in which things came. This puts it in order.

use std::collections::{HashMap, HashSet};

use runwire_agui::{Content, ContentPart, Message, RunAgentInput};
use serde_json::Value;

use crate::call::{CallResult, MadeCall, Media, MediaKind, Model, Part, Turn};

/// What a model is told of a call whose result nobody has.
const NO_RESULT: &str = "There is no result of this call: it was not answered.";

/// A conversation, and what of it cannot be told.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct History {
    /// The instructions that stand in it.
    pub system: Vec<String>,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// How many parts the model cannot take.
    pub parts_skipped: usize,
    /// How many results answer a call that is not in it.
    pub results_skipped: usize,
    /// Whether a result came since the model's last turn, which therefore is over.
    turn_is_over: bool,
}

impl History {
    /// The conversation of an input, for this model.
    pub fn of(input: &RunAgentInput, model: &dyn Model) -> History {
        let mut history = History::default();
        let mut results: HashMap<&str, Vec<(&Content, Option<&str>)>> = HashMap::new();
        // What a subagent said is between it and its own model.
        let messages: Vec<&Message> =
            input.messages.iter().filter(|message| message.subagent_run_id().is_none()).collect();
        let made: HashSet<&str> =
            messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.id.as_str()).collect();
        for message in &messages {
            if let Message::Tool(tool) = message {
                if made.contains(&*tool.tool_call_id) {
                    results.entry(&tool.tool_call_id).or_default().push((&tool.content, tool.error.as_deref()));
                } else {
                    history.results_skipped += 1;
                }
            }
        }
        for message in &messages {
            match message {
                Message::Developer(message) => history.system.push(message.content.clone()),
                Message::System(message) => history.system.push(message.content.clone()),
                Message::User(message) => {
                    let parts = history.parts(&message.content, model);
                    history.say(parts);
                }
                Message::Assistant(message) => {
                    let calls = message.tool_calls.as_deref().unwrap_or_default();
                    let calls = calls.iter().map(|call| MadeCall {
                        id: call.id.clone(),
                        name: call.function.name.clone(),
                        arguments: call.function.arguments.clone(),
                        opaque: call.encrypted_value.as_deref().and_then(|kept| unwrap(model.provider(), kept)),
                    });
                    history.answer(message.content.as_deref().unwrap_or_default(), calls.collect());
                }
                // Results go behind the calls that they answer.
                Message::Tool(_) => history.turn_is_over = true,
                // What a model thought goes back with the calls that it led to or not at all.
                Message::Activity(_) | Message::Reasoning(_) => {}
            }
        }
        let turns = std::mem::take(&mut history.turns);
        for turn in turns {
            let results = match &turn {
                Turn::Assistant { calls, .. } if !calls.is_empty() => {
                    let mut answered = Vec::with_capacity(calls.len());
                    for call in calls {
                        let given = results.remove(call.id.as_str()).unwrap_or_default();
                        answered.push(history.result(call, &given));
                    }
                    Some(Turn::Results(answered))
                }
                _ => None,
            };
            history.turns.push(turn);
            history.turns.extend(results);
        }
        history
    }

    /// The last answer to a call is the one that counts.
    fn result(&mut self, call: &MadeCall, given: &[(&Content, Option<&str>)]) -> CallResult {
        let Some((content, error)) = given.last() else { return unanswered(call) };
        if let Content::Parts(parts) = content {
            self.parts_skipped += parts.iter().filter(|part| !matches!(part, ContentPart::Text(_))).count();
        }
        let text = content.text();
        let text = match error {
            Some(error) if text.is_empty() => (*error).to_owned(),
            Some(error) => format!("{error}\n{text}"),
            None => text,
        };
        CallResult { id: call.id.clone(), name: call.name.clone(), ok: error.is_none(), text }
    }

    /// What a person said; a row of messages is one turn.
    fn say(&mut self, mut parts: Vec<Part>) {
        match self.turns.last_mut() {
            Some(Turn::User(before)) => before.append(&mut parts),
            _ => self.turns.push(Turn::User(parts)),
        }
    }

    /// What the model said and called; a row of messages is one turn, because clients make several of one answer.
    fn answer(&mut self, said: &str, mut made: Vec<MadeCall>) {
        let over = std::mem::replace(&mut self.turn_is_over, false);
        match self.turns.last_mut() {
            Some(Turn::Assistant { text, calls }) if !over => {
                if !said.is_empty() {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(said);
                }
                // The same call in two messages is one call.
                made.retain(|call| calls.iter().all(|known| known.id != call.id));
                calls.append(&mut made);
            }
            _ => {
                let known = |id: &str| {
                    self.turns.iter().any(|turn| match turn {
                        Turn::Assistant { calls, .. } => calls.iter().any(|call| call.id == id),
                        _ => false,
                    })
                };
                made.retain(|call| !known(&call.id));
                self.turns.push(Turn::Assistant { text: said.to_owned(), calls: made });
            }
        }
    }

    fn parts(&mut self, content: &Content, model: &dyn Model) -> Vec<Part> {
        let parts = match content {
            Content::Text(text) => return vec![Part::Text(text.clone())],
            Content::Parts(parts) => parts,
        };
        let mut taken = Vec::new();
        for part in parts {
            let media = |kind, part: &runwire_agui::MediaPart| Media { kind, source: part.source.clone() };
            let media = match part {
                ContentPart::Text(part) => {
                    taken.push(Part::Text(part.text.clone()));
                    continue;
                }
                ContentPart::Image(part) => media(MediaKind::Image, part),
                ContentPart::Audio(part) => media(MediaKind::Audio, part),
                ContentPart::Video(part) => media(MediaKind::Video, part),
                ContentPart::Document(part) => media(MediaKind::Document, part),
            };
            if model.takes(&media) {
                taken.push(Part::Media(media));
            } else {
                self.parts_skipped += 1;
            }
        }
        taken
    }
}

/// The result of a call that has none.
pub(crate) fn unanswered(call: &MadeCall) -> CallResult {
    CallResult { id: call.id.clone(), name: call.name.clone(), ok: false, text: NO_RESULT.to_owned() }
}

/// What a provider wants back with a call, as a client keeps it. Its provider goes with it, because the next run may be
/// another's.
pub(crate) fn wrap(provider: &str, opaque: &Value) -> String {
    format!("{provider}:{opaque}")
}

fn unwrap(provider: &str, kept: &str) -> Option<Value> {
    let opaque = kept.strip_prefix(provider)?.strip_prefix(':')?;
    serde_json::from_str(opaque).ok()
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
