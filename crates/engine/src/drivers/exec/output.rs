//! What a command writes to its standard output, and what becomes of it in the run: AG-UI events, one a line, or text.

use runwire_agui::AgentVersion;
use runwire_bridge::{ExchangeEnd, Failure, Opening, kind};
use runwire_frame::{ErrorCode, NoticeLevel};
use serde_json::{Map, Value, json};

use super::WHO;
use crate::drivers::lines::Lines;
use crate::drivers::relay::{Carried, MAX_EVENT_BYTES, Prepared, Relay};
use crate::segment::Segment;
use crate::writer::{RunWriter, WriteError};

/// What a command's standard output is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// AG-UI events when the first line that is not blank is a JSON object with a text `type`, and otherwise text.
    #[default]
    Auto,
    /// AG-UI events, one a line.
    Agui,
    /// Text, which becomes one message.
    Text,
}

/// Takes a command's output as it comes.
pub(super) struct OutputReader {
    form: Form,
    bytes: u64,
    max_bytes: u64,
}

enum Form {
    /// What came does not say yet.
    Open {
        prepared: Box<Prepared>,
        came: Vec<u8>,
    },
    Agui {
        relay: Box<Relay>,
        lines: Lines,
    },
    Text(Text),
    /// While one form becomes another, and after a failure.
    Nothing,
}

/// What the output came to.
pub(super) enum Said {
    /// The agent reported how its run ended.
    Ended(ExchangeEnd),
    /// Text, which has no ending of its own: how the command exits says how the run ended. It is in this message, if there
    /// was any.
    Text(Option<Segment<kind::Message>>),
    /// Events without an ending; what is missing reads on behind whose stream it is.
    Truncated(String),
}

impl OutputReader {
    /// Takes so many bytes at most.
    ///
    /// # Errors
    /// When the run cannot be written.
    pub(super) async fn new(output: Output, prepared: Prepared, max_bytes: u64) -> Result<OutputReader, Failure> {
        let form = match output {
            Output::Auto => Form::Open { prepared: Box::new(prepared), came: Vec::new() },
            Output::Agui => agui(prepared),
            Output::Text => Form::Text(Text::begin(prepared).await?),
        };
        Ok(OutputReader { form, bytes: 0, max_bytes })
    }

    /// Whether the agent reported that its run ended.
    pub(super) fn has_ended(&self) -> bool {
        matches!(&self.form, Form::Agui { relay, .. } if relay.has_ended())
    }

    /// Takes the next bytes. Waits while too much of the run is on its way to the store. Dropped in between, not all of it
    /// was written.
    ///
    /// # Errors
    /// When they are too many, break a rule, or the run cannot be written.
    pub(super) async fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.max_bytes {
            return Err(Failure::new(
                ErrorCode::SandboxError,
                format!("{WHO} wrote more than the {} bytes of output that it may", self.max_bytes),
            ));
        }
        self.take(bytes).await
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.form {
            Form::Open { came, .. } => {
                // Looked at again only when there is something to see: its line may be long, and come in many pieces.
                let goes_on = came.trim_ascii_start().first() == Some(&b'{') && !bytes.contains(&b'\n');
                came.extend_from_slice(bytes);
                if goes_on && came.len() <= MAX_EVENT_BYTES {
                    return Ok(());
                }
                match is_agui(came, false) {
                    None => Ok(()),
                    Some(agui) => self.decide(agui).await,
                }
            }
            Form::Agui { relay, lines } => {
                let complete = lines.push(bytes).map_err(|long| {
                    let at = relay.next_event();
                    broken(format!("the output of {WHO} cannot be read on at event {at}: {long}"))
                })?;
                for line in complete {
                    push_line(relay, line).await?;
                }
                Ok(())
            }
            Form::Text(text) => Ok(text.push(bytes).await?),
            Form::Nothing => Ok(()),
        }
    }

    async fn decide(&mut self, is_agui: bool) -> Result<(), Failure> {
        let Form::Open { prepared, came } = std::mem::replace(&mut self.form, Form::Nothing) else { return Ok(()) };
        self.form = if is_agui { agui(*prepared) } else { Form::Text(Text::begin(*prepared).await?) };
        Box::pin(self.take(&came)).await
    }

    /// The output is over.
    ///
    /// # Errors
    /// As [`OutputReader::push`].
    pub(super) async fn finish(mut self) -> Result<Said, Failure> {
        if let Form::Open { came, .. } = &self.form {
            let is_agui = is_agui(came, true).unwrap_or(false);
            self.decide(is_agui).await?;
        }
        match self.form {
            Form::Agui { mut relay, mut lines } => {
                if let Some(last) = lines.finish() {
                    push_line(&mut relay, last).await?;
                }
                Ok(match relay.reported() {
                    Ok(end) => Said::Ended(end),
                    Err(truncation) => Said::Truncated(truncation.to_string()),
                })
            }
            Form::Text(text) => Ok(Said::Text(text.finish().await?)),
            Form::Open { .. } | Form::Nothing => Ok(Said::Text(None)),
        }
    }
}

fn agui(prepared: Prepared) -> Form {
    let relay = Box::new(Relay::new(WHO, AgentVersion::default(), prepared, MAX_EVENT_BYTES));
    Form::Agui { relay, lines: Lines::new(MAX_EVENT_BYTES) }
}

fn broken(message: String) -> Failure {
    Failure::new(ErrorCode::ChannelError, message)
}

/// Lines that hold nothing are nothing.
async fn push_line(relay: &mut Relay, line: Vec<u8>) -> Result<(), Failure> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    let line = String::from_utf8(line).map_err(|_| {
        let at = relay.next_event();
        broken(format!("the output of {WHO} cannot be read on at event {at}: the line is not UTF-8"))
    })?;
    relay.push(Carried::Json(line)).await
}

/// Whether the output is AG-UI, by its first line that is not blank; `None` while that is not there. Text is told as soon
/// as it can be nothing else, so that nobody waits for the end of its line.
fn is_agui(came: &[u8], whole: bool) -> Option<bool> {
    let rest = came.trim_ascii_start();
    match rest.first() {
        None if !whole => return None,
        Some(b'{') => {}
        _ => return Some(false),
    }
    let end = rest.iter().position(|byte| *byte == b'\n');
    if end.is_none() && !whole && rest.len() <= MAX_EVENT_BYTES {
        return None;
    }
    let line = &rest[..end.unwrap_or(rest.len())];
    let event = serde_json::from_slice::<Map<String, Value>>(line);
    Some(event.is_ok_and(|event| event.get("type").is_some_and(Value::is_string)))
}

/// Text that becomes one message.
struct Text {
    writer: RunWriter,
    message: Option<Segment<kind::Message>>,
    /// The bytes of a character that has not come whole.
    held: Vec<u8>,
    replaced: bool,
}

impl Text {
    async fn begin(prepared: Prepared) -> Result<Text, WriteError> {
        Ok(Text { writer: prepared.begin().await?, message: None, held: Vec::new(), replaced: false })
    }

    async fn push(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let (text, replaced, rest) = decode(&held);
        self.held = rest.to_vec();
        self.write(&text, replaced).await
    }

    async fn write(&mut self, text: &str, replaced: bool) -> Result<(), WriteError> {
        if replaced && !self.replaced {
            self.replaced = true;
            let what = format!("the output of {WHO} is not all UTF-8; what is not was replaced by U+FFFD");
            self.writer.notice(NoticeLevel::Warning, "output_not_utf8", &what, None).await?;
        }
        if text.is_empty() {
            return Ok(());
        }
        let message = match &self.message {
            Some(message) => message,
            None => {
                let agui = Map::from_iter([("role".to_owned(), json!("assistant"))]);
                let opening = Opening { agui: Some(agui), ..Opening::named("assistant") };
                self.message.insert(self.writer.message(opening).await?)
            }
        };
        message.text(text).await
    }

    async fn finish(mut self) -> Result<Option<Segment<kind::Message>>, WriteError> {
        if !self.held.is_empty() {
            self.write("\u{FFFD}", true).await?;
        }
        Ok(self.message)
    }
}

/// The text of the bytes; whether something of it had to be replaced; and the bytes of a character that is not there whole.
fn decode(mut bytes: &[u8]) -> (String, bool, &[u8]) {
    let mut text = String::with_capacity(bytes.len());
    let mut replaced = false;
    loop {
        match std::str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                return (text, replaced, &[]);
            }
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                text.push_str(std::str::from_utf8(valid).expect("it is valid up to there"));
                let Some(invalid) = error.error_len() else { return (text, replaced, rest) };
                text.push('\u{FFFD}');
                replaced = true;
                bytes = &rest[invalid..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn output_is_agui_when_its_first_line_is_an_object_with_a_type() {
        for (came, told, whole) in [
            ("", None, Some(false)),
            ("\n \n", None, Some(false)),
            ("H", Some(false), Some(false)),
            ("\n  Hello", Some(false), Some(false)),
            ("{", None, Some(false)),
            ("{\"type\":\"RUN_STARTED\"}", None, Some(true)),
            ("\n{\"type\":\"RUN_STARTED\"}\nnot json", Some(true), Some(true)),
            ("{\"type\":1}\n", Some(false), Some(false)),
            ("{\"kind\":\"x\"}\n", Some(false), Some(false)),
            ("{braces are text too}\n", Some(false), Some(false)),
            ("[1]\n", Some(false), Some(false)),
        ] {
            assert_eq!((is_agui(came.as_bytes(), false), is_agui(came.as_bytes(), true)), (told, whole), "{came:?}");
        }
    }

    #[test]
    fn characters_are_never_split_however_the_bytes_are_cut() {
        let text = "a é € 🦀 z".as_bytes();
        for cut in 1..=text.len() {
            let (mut held, mut told) = (Vec::new(), String::new());
            for piece in text.chunks(cut) {
                held.extend_from_slice(piece);
                let (text, replaced, rest) = decode(&held);
                assert!(!replaced);
                told.push_str(&text);
                held = rest.to_vec();
            }
            assert_eq!((told.as_bytes(), held.len()), (text, 0), "cut every {cut} bytes");
        }
    }

    #[test]
    fn what_is_no_utf_8_is_replaced_and_what_is_cut_off_is_kept() {
        assert_eq!(decode(b"a\xffb"), ("a\u{FFFD}b".to_owned(), true, &b""[..]));
        assert_eq!(decode(b"ab\xf0\x9f"), ("ab".to_owned(), false, &b"\xf0\x9f"[..]));
    }
}
