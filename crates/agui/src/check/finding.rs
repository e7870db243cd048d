//! What a check finds: which rule, how grave, where, what was expected, what came.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::check::advice::AdviceRule;
use crate::check::catalogue::RuleEntry;
use crate::check::form::Payload;
use crate::violation::Rule;
use crate::warning::WarningRule;

/// Events are shown up to so many characters.
const EXCERPT_CHARACTERS: usize = 240;
/// A name or a value in a message is shown up to so many characters.
const NAME_CHARACTERS: usize = 80;
/// A message or a JSON Pointer is shown up to so many characters.
const MESSAGE_CHARACTERS: usize = 400;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// A client rejects the stream.
    Violation,
    /// The stream stopped short. Nothing that came is wrong, but the run has no outcome.
    Truncation,
    /// A client goes on, without something that was sent.
    Warning,
    /// The stream conforms, and would still be better otherwise.
    Advice,
}

impl Severity {
    /// The severity's stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Violation => "violation",
            Self::Truncation => "truncation",
            Self::Warning => "warning",
            Self::Advice => "advice",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl Serialize for Severity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Any rule that a check can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CheckRule {
    /// Its breach rejects the stream.
    Violation(Rule),
    /// A stream goes on until its runs have ended (transports, "Truncation").
    Truncated,
    /// Something was dropped, stripped or skipped.
    Warning(WarningRule),
    /// Something would be better otherwise.
    Advice(AdviceRule),
}

impl CheckRule {
    /// Every rule: violations, truncation, warnings, advice.
    pub fn all() -> impl Iterator<Item = Self> {
        let violations = Rule::ALL.iter().map(|&rule| Self::Violation(rule));
        let warnings = WarningRule::ALL.iter().map(|&rule| Self::Warning(rule));
        let advice = AdviceRule::ALL.iter().map(|&rule| Self::Advice(rule));
        violations.chain([Self::Truncated]).chain(warnings).chain(advice)
    }

    /// The rule's stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Violation(rule) => rule.as_str(),
            Self::Truncated => "truncated-stream",
            Self::Warning(rule) => rule.as_str(),
            Self::Advice(rule) => rule.as_str(),
        }
    }

    /// How grave a breach is.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::Violation(_) => Severity::Violation,
            Self::Truncated => Severity::Truncation,
            Self::Warning(_) => Severity::Warning,
            Self::Advice(_) => Severity::Advice,
        }
    }

    /// What the rule says, where it is written, and a stream for each side of it.
    #[must_use]
    pub fn entry(self) -> RuleEntry {
        RuleEntry::of(self)
    }
}

/// A name that no rule has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no rule '{0}'")]
pub struct UnknownRule(pub String);

impl FromStr for CheckRule {
    type Err = UnknownRule;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::all().find(|rule| rule.as_str() == name).ok_or_else(|| UnknownRule(name.to_owned()))
    }
}

impl fmt::Display for CheckRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl Serialize for CheckRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Where an event stands in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) event: usize,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// The type that the event came as, when it is one that reasoning had before 1.0.
    pub(crate) retired_type: Option<&'static str>,
}

/// An event where it stands, and as it was recorded when that is at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) place: Place,
    pub(crate) payload: Option<&'a Payload>,
}

impl Seen<'_> {
    pub(crate) fn excerpt(self) -> Option<String> {
        self.payload.and_then(Payload::excerpt)
    }
}

impl From<Place> for Seen<'_> {
    fn from(place: Place) -> Self {
        Self { place, payload: None }
    }
}

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule.
    pub rule: CheckRule,
    /// How grave it is: that of the rule.
    pub severity: Severity,
    /// What is wrong, in a sentence.
    pub message: String,
    /// The event that it is about, counted from 0. At the end of a stream it is the event that did not come.
    pub event: usize,
    /// Where the event begins, in bytes from the start of the recording.
    pub offset: u64,
    /// How many bytes of the recording the event takes; 0 for one that did not come.
    pub length: u64,
    /// JSON Pointer of the place in the event, when it is about one.
    pub path: Option<String>,
    /// The page of the specification that the rule is from.
    pub page: String,
    /// What was expected.
    pub expected: String,
    /// What came.
    pub found: String,
    /// The earlier event that this one contradicts, when there is one.
    pub contradicts: Option<Earlier>,
    /// The event as it was recorded, cut at a sensible length; `None` for one that did not come.
    pub excerpt: Option<String>,
}

/// An event that a later one contradicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Earlier {
    /// The event, counted from 0.
    pub event: usize,
    /// Where it begins, in bytes from the start of the recording.
    pub offset: u64,
    /// What it did, such as "opened step 'a'".
    pub what: String,
}

impl Finding {
    /// A finding about the event of that place, expecting what the rule says.
    pub(crate) fn new(rule: CheckRule, seen: Seen<'_>, message: String, found: String) -> Self {
        let entry = rule.entry();
        Self {
            rule,
            severity: rule.severity(),
            message,
            event: seen.place.event,
            offset: seen.place.offset,
            length: seen.place.length,
            path: None,
            page: entry.url(),
            expected: entry.statement.to_owned(),
            found,
            contradicts: None,
            excerpt: seen.excerpt(),
        }
    }
}

/// Whether a character changes how the text around it is shown instead of being shown itself: control characters, and what
/// sets the direction of text or ends a line of it. What a check tells of a stream in words of its own holds a space in the
/// place of each.
#[must_use]
pub fn steers_text(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// An event as it was recorded, on one line, cut at a sensible length.
pub(crate) fn excerpt(json: &[u8]) -> String {
    // Only the beginning is looked at, so that a huge event costs no more than a small one.
    let beginning = &json[..json.len().min(4 * EXCERPT_CHARACTERS)];
    cut(&String::from_utf8_lossy(beginning), EXCERPT_CHARACTERS)
}

/// A value as its JSON, cut at a sensible length.
pub(crate) fn shown(value: &Value) -> String {
    name(&value.to_string())
}

/// A name or a value that came with the stream, cut at a sensible length.
pub(crate) fn name(text: &str) -> String {
    cut(text, NAME_CHARACTERS)
}

/// A message about the stream, cut at a sensible length: each name in it, and the middle of what is still too long.
///
/// A name stands between single quotes. One that does not is told from the words around it by its length, since no word of
/// ours has as many characters, and so is one that looks as if it ended earlier than it does.
pub(crate) fn message(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = split_at_quote(rest) {
        push_words(&mut out, before);
        let (named, closed) = split_name(behind);
        out.push_str(&name(named));
        out.push_str(if closed.is_some() { "'" } else { "" });
        rest = closed.unwrap_or_default();
    }
    push_words(&mut out, rest);
    middle_cut(&out)
}

/// The text up to a quote that opens, that included, and the text behind it.
fn split_at_quote(text: &str) -> Option<(&str, &str)> {
    let opens =
        |at: &usize| text[..*at].chars().next_back().is_none_or(|before| before.is_whitespace() || before == '(');
    let at = text.match_indices('\'').map(|(at, _)| at).find(opens)?;
    Some(text.split_at(at + 1))
}

/// The name that the text begins with, and the text behind the quote that closes it: the one behind which our own words go
/// on.
fn split_name(text: &str) -> (&str, Option<&str>) {
    let ours = |next: char| matches!(next, ' ' | ',' | ';' | '.' | ':' | ')');
    let closes = |at: &usize| text[*at + 1..].chars().next().is_none_or(ours);
    let end = text.match_indices('\'').map(|(at, _)| at).find(closes);
    end.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])))
}

fn push_words(out: &mut String, text: &str) {
    for word in text.split_inclusive(char::is_whitespace) {
        out.push_str(&name(word.trim_end()));
        if word.ends_with(char::is_whitespace) {
            out.push(' ');
        }
    }
}

/// A text of which the beginning and the end are kept when it has too many characters: a sentence says there what it is
/// about, and what is wrong.
fn middle_cut(text: &str) -> String {
    let length = text.chars().count();
    if length <= MESSAGE_CHARACTERS {
        return text.to_owned();
    }
    let end = MESSAGE_CHARACTERS / 3;
    let beginning: String = text.chars().take(MESSAGE_CHARACTERS - end).collect();
    let end: String = text.chars().skip(length - end).collect();
    format!("{beginning}…{end}")
}

/// A JSON Pointer, of which each name and the whole are cut at a sensible length.
pub(crate) fn short_path(path: &str) -> String {
    let names = path.split('/').map(|part| shortened(part, NAME_CHARACTERS));
    shortened(&names.collect::<Vec<_>>().join("/"), MESSAGE_CHARACTERS)
}

fn cut(text: &str, characters: usize) -> String {
    shortened(text, characters).chars().map(|c| if steers_text(c) { ' ' } else { c }).collect()
}

fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
