//! A run on a terminal: text as it streams, reasoning dimmed, tool calls with their arguments filling in.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Write};

use runwire_frame::{Data, Frame, RunStatus, SegmentKind, Usage};
use serde_json::Value;

use crate::plain::{Plain, SetIn, Streamed};

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

/// Prints frames as they come. What a model or a tool wrote is printed without what steers a terminal.
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
                let detail = end.failure_detail.as_ref().map(|d| format!(": {}", d)).unwrap_or_default();
                self.note(&format!("run {}{detail}", end.status))?;
            }
            Data::SegmentStart(start) => {
                let name = start.name.clone().unwrap_or_default();
                match start.kind {
                    SegmentKind::Step => self.mark("▸", &format!("step: {}", Plain(&name)))?,
                    SegmentKind::Agent => self.mark("▸", &format!("agent: {}", Plain(&name)))?,
                    SegmentKind::Message | SegmentKind::Reasoning | SegmentKind::Tool | SegmentKind::Model => {}
                }
                self.names.insert(segment, (start.kind, name));
            }
            Data::SegmentEnd(end) => {
                if let Some((kind, name)) = self.names.remove(&segment) {
                    if let Some(usage) = &end.usage {
                        self.note(&format!("model {}: {}", Plain(&name), tokens(usage)))?;
                    }
                    if kind == SegmentKind::Step {
                        self.note(&format!("step {} {}", Plain(&name), end.status))?;
                    }
                }
            }
            Data::TextDelta(delta) => {
                self.continue_line(Line::Text(segment), "")?;
                write!(self.out, "{}", Streamed(&delta.text))?;
            }
            Data::ThinkingDelta(delta) => {
                self.continue_line(Line::Thinking(segment), "")?;
                write!(self.out, "{}", self.style.dim(&Streamed(&delta.text).to_string()))?;
            }
            Data::ToolCall(call) => {
                let label = format!("{} {} ", self.style.bold("⚙"), Plain(&call.tool_slug));
                if let Some(delta) = &call.arguments_delta {
                    self.continue_line(Line::Arguments(segment.clone()), &label)?;
                    write!(self.out, "{}", self.style.dim(&Streamed(delta).to_string()))?;
                }
                if let Some(whole) = &call.arguments {
                    if self.line != Line::Arguments(segment.clone()) {
                        self.fresh()?;
                        write!(self.out, "{label}{}", self.style.dim(&Streamed(whole).to_string()))?;
                        self.line = Line::Arguments(segment);
                    }
                    self.fresh()?;
                }
            }
            Data::ToolResult(result) => {
                let preview = result.output_preview.as_deref().unwrap_or_default();
                let more = if result.truncated { format!(" … ({} bytes)", result.bytes) } else { String::new() };
                let mark = if result.ok { "←" } else { "✗" };
                self.mark(mark, &format!("{preview}{more}"))?;
            }
            Data::Suspend(suspend) => {
                let prompt = suspend.prompt.as_deref().map(|p| format!(": {}", p)).unwrap_or_default();
                self.mark("?", &format!("waits for {}{prompt}", suspend.kind))?;
            }
            Data::Resume(_) => self.note("goes on")?,
            Data::Notice(notice) => {
                let shown = match notice.code.as_str() {
                    "agui.STATE_SNAPSHOT" => format!("state is {}", member(notice.attributes.as_ref(), "snapshot")),
                    "agui.STATE_DELTA" => format!("state changes {}", member(notice.attributes.as_ref(), "delta")),
                    code => format!("{code}: {}", notice.message),
                };
                self.note(&shown)?;
            }
            Data::Error(error) => {
                self.fresh()?;
                let text = SetIn(&format!("{}: {}", error.code, error.message)).to_string();
                writeln!(self.out, "{}", self.style.red(&text))?;
            }
        }
        self.out.flush()
    }

    /// Prints a line about what is going on, not part of the run.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        self.fresh()?;
        writeln!(self.out, "{}", self.style.dim(&SetIn(text).to_string()))?;
        self.out.flush()
    }

    /// Prints a line that stands out.
    pub fn headline(&mut self, text: &str) -> io::Result<()> {
        self.fresh()?;
        writeln!(self.out, "{}", self.style.bold(&SetIn(text).to_string()))?;
        self.out.flush()
    }

    fn mark(&mut self, mark: &str, text: &str) -> io::Result<()> {
        self.fresh()?;
        writeln!(self.out, "{} {}", self.style.bold(mark), SetIn(text))
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
