//! A run input in the shapes that an older agent reads (basic/versioning, "Downgrading").
//!
//! It works on an input that enforcement has passed, so nothing malformed is repaired here. Nothing is invented either:
//! what an older schema requires and this one lets be absent is given as an empty value.

use serde_json::{Map, Value};

use super::{AgentVersion, OutgoingRule, OutgoingWarning};
use crate::input::RunAgentInput;
use crate::message::{Content, ContentPart, Message, PartSource};

/// Rewrites the input for an agent of that version, in place. Every loss is told.
pub(super) fn downgrade(input: &mut RunAgentInput, agent: AgentVersion, warnings: &mut Vec<OutgoingWarning>) {
    if agent.is_current() {
        return;
    }
    input.protocol_version = None;
    // Required before 1.0. All of them empty say what their absence says.
    let empty = || Value::Object(Map::new());
    input.state.get_or_insert_with(empty);
    input.forwarded_props.get_or_insert_with(empty);
    input.context.get_or_insert_default();
    for tool in input.tools.get_or_insert_default() {
        tool.parameters.get_or_insert_with(empty);
    }
    let mut index = 0;
    input.messages.retain_mut(|message| {
        let keep = rewrite(message, index, agent, warnings);
        index += 1;
        keep
    });
}

/// `false` when the agent has no message of this role.
fn rewrite(message: &mut Message, index: usize, agent: AgentVersion, warnings: &mut Vec<OutgoingWarning>) -> bool {
    if !agent.knows_subagents() {
        // Lossless: without subagents everything is one thread.
        *subagent_run_id(message) = None;
    }
    let place = format!("/messages/{index}");
    match message {
        Message::Reasoning(reasoning) if !agent.knows_content_parts() => {
            let message = format!(
                "The reasoning message '{}' at {place} is left out: an agent that speaks AG-UI {agent} has no such \
                 message. An agent of 1.0 gets it.",
                reasoning.id
            );
            warnings.push(lossy(message, place));
            false
        }
        Message::User(user) => {
            if agent.knows_content_parts() {
                without_file_handles(&mut user.content, &place, agent, warnings);
            } else {
                flatten(&mut user.content, "user", &place, agent, warnings);
            }
            true
        }
        Message::Tool(tool) => {
            flatten(&mut tool.content, "tool", &place, agent, warnings);
            true
        }
        _ => true,
    }
}

/// Parts become the text they hold, joined in order (events/tool-calls, "Result content").
fn flatten(content: &mut Content, role: &str, place: &str, agent: AgentVersion, warnings: &mut Vec<OutgoingWarning>) {
    let Content::Parts(parts) = content else { return };
    let mut lost = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        match part {
            ContentPart::Text(text) if text.metadata.is_none() => {}
            ContentPart::Text(_) => lost.push(format!("the metadata of part {index}")),
            media => lost.push(format!("part {index} ({})", kind(media))),
        }
    }
    if !lost.is_empty() {
        let message = format!(
            "The content of the {role} message at {place} is sent as text, because an agent that speaks AG-UI {agent} \
             takes nothing else there; that drops non-text parts and what belongs to them: {}. An agent of 1.0 gets \
             them.",
            lost.join(", ")
        );
        warnings.push(lossy(message, format!("{place}/content")));
    }
    *content = Content::Text(content.text());
}

/// A source that is a provider's handle came with 1.0; before, a part whose source is one cannot be read.
fn without_file_handles(content: &mut Content, place: &str, agent: AgentVersion, warnings: &mut Vec<OutgoingWarning>) {
    let Content::Parts(parts) = content else { return };
    let mut index = 0;
    parts.retain(|part| {
        let path = format!("{place}/content/{index}");
        index += 1;
        let (ContentPart::Image(media)
        | ContentPart::Audio(media)
        | ContentPart::Video(media)
        | ContentPart::Document(media)) = part
        else {
            return true;
        };
        if !matches!(media.source, PartSource::File(_)) {
            return true;
        }
        let message = format!(
            "The {} at {path} is left out: its source is a provider's file handle, which an agent that speaks AG-UI \
             {agent} does not know. An agent of 1.0 gets it.",
            kind(part)
        );
        warnings.push(lossy(message, path));
        false
    });
}

fn kind(part: &ContentPart) -> &'static str {
    match part {
        ContentPart::Text(_) => "text",
        ContentPart::Image(_) => "image",
        ContentPart::Audio(_) => "audio",
        ContentPart::Video(_) => "video",
        ContentPart::Document(_) => "document",
    }
}

fn subagent_run_id(message: &mut Message) -> &mut Option<String> {
    match message {
        Message::Developer(message) => &mut message.subagent_run_id,
        Message::System(message) => &mut message.subagent_run_id,
        Message::Assistant(message) => &mut message.subagent_run_id,
        Message::User(message) => &mut message.subagent_run_id,
        Message::Tool(message) => &mut message.subagent_run_id,
        Message::Activity(message) => &mut message.subagent_run_id,
        Message::Reasoning(message) => &mut message.subagent_run_id,
    }
}

fn lossy(message: String, path: String) -> OutgoingWarning {
    OutgoingWarning::new(OutgoingRule::LossyDowngrade, message, Some(path))
}
