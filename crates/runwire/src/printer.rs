//! A run on a terminal: text as it streams, reasoning dimmed, tool calls with their arguments filling in.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Write};

use runwire_agui::one_line;
use runwire_frame::{Data, Frame, RunStatus, SegmentKind, Usage};
use serde_json::Value;

/// Dim, bold and plain, where the output is a terminal that wants colours.
#[derive(Clone, Copy)]
pub struct Style {
    colours: bool,
}

impl Style {
    /// As the terminal and `NO_COLOR` have it.
    pub fn detect() -> Style {
        Style { colours: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// For what is beside the matter.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// For what matters.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn red(self, text: &str) -> String {
        self.paint("31", text)
    }
}

/// Which running line the cursor is in.
#[derive(Clone, PartialEq, Eq)]
enum Line {
    Fresh,
    Text(String),
    Thinking(String),
    Arguments(String),
}

/// Prints frames as they come. What a model or a tool wrote is printed without its control characters; a name stays in its line.
pub struct Printer<W> {
    out: W,
    style: Style,
    line: Line,
    names: HashMap<String, (SegmentKind, String)>,
}

impl<W: Write> Printer<W> {
    /// Prints to `out`.
    pub fn new(out: W, style: Style) -> Printer<W> {
        Printer { out, style, line: Line::Fresh, names: HashMap::new() }
    }

    /// What it prints to.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Prints one frame.
    pub fn frame(&mut self, frame: &Frame) -> io::Result<()> {
        let segment = frame.segment_id.as_ref().map_or_else(String::new, |s| s.as_str().to_owned());
        match &frame.data {
            Data::RunStart(start) => {
                let text = format!("run {} of agent {}, attempt {}", frame.run_id, start.agent_id, start.attempt);
                self.note(&text)?;
            }
            Data::RunStatus(change) => {
                if !matches!(change.status, RunStatus::Running) && !change.status.is_ended() {
                    self.note(&format!("run is {}", change.status))?;
                }
            }
            Data::RunEnd(end) => {
                let detail = end.failure_detail.as_ref().map(|d| format!(": {}", clean(d))).unwrap_or_default();
                self.note(&format!("run {}{detail}", end.status))?;
            }
            Data::SegmentStart(start) => {
                let name = start.name.clone().unwrap_or_default();
                match start.kind {
                    SegmentKind::Step => self.mark("▸", &format!("step: {}", one_line(&name)))?,
                    SegmentKind::Agent => self.mark("▸", &format!("agent: {}", one_line(&name)))?,
                    SegmentKind::Message | SegmentKind::Reasoning | SegmentKind::Tool | SegmentKind::Model => {}
                }
                self.names.insert(segment, (start.kind, name));
            }
            Data::SegmentEnd(end) => {
                if let Some((kind, name)) = self.names.remove(&segment) {
                    if let Some(usage) = &end.usage {
                        self.note(&format!("model {}: {}", one_line(&name), tokens(usage)))?;
                    }
                    if kind == SegmentKind::Step {
                        self.note(&format!("step {} {}", one_line(&name), end.status))?;
                    }
                }
            }
            Data::TextDelta(delta) => {
                self.continue_line(Line::Text(segment), "")?;
                write!(self.out, "{}", clean(&delta.text))?;
            }
            Data::ThinkingDelta(delta) => {
                self.continue_line(Line::Thinking(segment), "")?;
                write!(self.out, "{}", self.style.dim(&clean(&delta.text)))?;
            }
            Data::ToolCall(call) => {
                let label = format!("{} {} ", self.style.bold("⚙"), one_line(&call.tool_slug));
                if let Some(delta) = &call.arguments_delta {
                    self.continue_line(Line::Arguments(segment.clone()), &label)?;
                    write!(self.out, "{}", self.style.dim(&clean(delta)))?;
                }
                if let Some(whole) = &call.arguments {
                    if self.line != Line::Arguments(segment.clone()) {
                        self.fresh()?;
                        write!(self.out, "{label}{}", self.style.dim(&clean(whole)))?;
                        self.line = Line::Arguments(segment);
                    }
                    self.fresh()?;
                }
            }
            Data::ToolResult(result) => {
                let preview = clean(result.output_preview.as_deref().unwrap_or_default());
                let more = if result.truncated { format!(" … ({} bytes)", result.bytes) } else { String::new() };
                let mark = if result.ok { "←" } else { "✗" };
                self.mark(mark, &format!("{preview}{more}"))?;
            }
            Data::Suspend(suspend) => {
                let prompt = suspend.prompt.as_deref().map(|p| format!(": {}", clean(p))).unwrap_or_default();
                self.mark("?", &format!("waits for {}{prompt}", suspend.kind))?;
            }
            Data::Resume(_) => self.note("goes on")?,
            Data::Notice(notice) => {
                let shown = match notice.code.as_str() {
                    "agui.STATE_SNAPSHOT" => format!("state is {}", member(notice.attributes.as_ref(), "snapshot")),
                    "agui.STATE_DELTA" => format!("state changes {}", member(notice.attributes.as_ref(), "delta")),
                    code => format!("{}: {}", one_line(code), one_line(&notice.message)),
                };
                self.note(&shown)?;
            }
            Data::Error(error) => {
                self.fresh()?;
                let text = format!("{}: {}", error.code, clean(&error.message));
                writeln!(self.out, "{}", self.style.red(&text))?;
            }
        }
        self.out.flush()
    }

    /// Prints a line about what is going on, not part of the run.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        self.fresh()?;
        writeln!(self.out, "{}", self.style.dim(text))?;
        self.out.flush()
    }

    /// Prints a line that stands out.
    pub fn headline(&mut self, text: &str) -> io::Result<()> {
        self.fresh()?;
        writeln!(self.out, "{}", self.style.bold(text))?;
        self.out.flush()
    }

    fn mark(&mut self, mark: &str, text: &str) -> io::Result<()> {
        self.fresh()?;
        writeln!(self.out, "{} {text}", self.style.bold(mark))
    }

    fn continue_line(&mut self, line: Line, label: &str) -> io::Result<()> {
        if self.line != line {
            self.fresh()?;
            write!(self.out, "{label}")?;
            self.line = line;
        }
        Ok(())
    }

    fn fresh(&mut self) -> io::Result<()> {
        if self.line != Line::Fresh {
            writeln!(self.out)?;
            self.line = Line::Fresh;
        }
        Ok(())
    }
}

fn member(attributes: Option<&serde_json::Map<String, Value>>, key: &str) -> String {
    attributes.and_then(|a| a.get(key)).map(Value::to_string).unwrap_or_default()
}

/// Tokens of one entry, for a person.
pub fn tokens(usage: &Usage) -> String {
    let count = |n: Option<u64>, what: &str| n.map(|n| format!("{n} {what}"));
    let parts = [
        count(usage.input_tokens, "tokens in"),
        count(usage.output_tokens, "out"),
        count(usage.reasoning_tokens, "of them reasoning"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no tokens reported".to_owned() } else { parts.join(", ") }
}

/// Text from an agent, without what could move the cursor or change the terminal.
fn clean(text: &str) -> String {
    let harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars().filter(|c| harmless(*c)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_an_agent_chose_prints_no_line_of_its_own() {
        let forged = "x\n  run completed\u{202e}";
        let frame = |seq: u64, kind: &str, segment: Value, data: Value| {
            let frame = json!({
                "protocol": 2, "seq": seq, "run_id": "r", "ts": "2026-11-29T21:18:00.123Z", "type": kind,
                "segment_id": segment, "data": data,
            });
            Frame::decode(frame.to_string().as_bytes()).unwrap()
        };
        let start = |kind: &str| json!({ "kind": kind, "name": forged });
        let mut out = Vec::new();
        let mut printer = Printer::new(&mut out, Style { colours: false });
        for frame in [
            frame(1, "segment.start", json!("seg_1"), start("step")),
            frame(2, "segment.start", json!("seg_2"), start("agent")),
            frame(
                3,
                "tool.call",
                json!("seg_3"),
                json!({ "tool_call_id": "c", "tool_slug": forged, "arguments": "{}" }),
            ),
            frame(4, "notice", Value::Null, json!({ "level": "info", "code": forged, "message": forged })),
            frame(5, "segment.end", json!("seg_1"), json!({ "status": "completed", "duration_ms": 1 })),
        ] {
            printer.frame(&frame).unwrap();
        }
        let printed = String::from_utf8(out).unwrap();
        assert_eq!(printed.matches("x\\n  run completed\\u{202e}").count(), 6, "{printed}");
        assert_eq!(printed.lines().count(), 5, "{printed}");
    }
}
