//! What a consumer mentions without rejecting the stream.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::one_line::{cut, sentence};

macro_rules! warning_rules {
    ($( $(#[$doc:meta])* $name:ident = $id:literal ),* $(,)?) => {
        /// Why a warning was given.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum WarningRule {
            $( $(#[$doc])* $name, )*
        }

        impl WarningRule {
            /// Every reason to warn.
            pub const ALL: &'static [WarningRule] = &[$( WarningRule::$name ),*];

            /// The rule's stable name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $( Self::$name => $id, )*
                }
            }
        }
    };
}

warning_rules! {
    /// An event of a type that 1.0 does not describe was dropped (basic/processing).
    UnknownEvent = "unknown-event",
    /// A property that 1.0 does not describe was stripped (basic/processing).
    UnknownProperty = "unknown-property",
    /// A member of a union or of a closed set of strings that 1.0 does not describe was stripped (basic/processing).
    UnknownMember = "unknown-member",
    /// A `null` from a peer of before 1.0 was read as an absent member (basic/versioning).
    NullMember = "null-member",
    /// A retired shape was translated (basic/versioning, "Retired shapes").
    RetiredShape = "retired-shape",
    /// The producer declares a newer version (basic/versioning, "Version negotiation").
    NewerVersion = "newer-version",
    /// The producer declares a version that is not `MAJOR.MINOR` (basic/versioning, "Version negotiation").
    UninterpretableVersion = "uninterpretable-version",
    /// A well-formed patch did not apply, and the old value was kept (patterns/snapshots).
    PatchNotApplied = "patch-not-applied",
    /// An activity event names a message that is none of the activities (events/activity).
    ActivityTarget = "activity-target",
    /// An encrypted value names nothing that can hold it (events/reasoning).
    EncryptedValueTarget = "encrypted-value-target",
    /// Streamed text names a message, or streamed arguments a tool call, that is not held or cannot hold them.
    TextTarget = "text-target",
    /// A tool call names a parent message that cannot hold it.
    ToolCallParent = "tool-call-parent",
    /// The last run on the stream is not the one that the input asked for (basic/run-input, "Identity").
    RequestedRunMissing = "requested-run-missing",
    /// A run has the id of an earlier one (basic, "Identifiers").
    RunIdReused = "run-id-reused",
    /// A run echoes an input of another thread (basic/run-input, "Identity").
    EchoOfAnotherThread = "echo-of-another-thread",
    /// The stream stopped inside an event, which was discarded (transports, "Truncation").
    UnterminatedEvent = "unterminated-event",
    /// A run that starts is answered with status 200 (transports/http-sse, "Response").
    ResponseStatus = "response-status",
    /// An answer is protobuf only where the request admits it (transports/http-protobuf, "Negotiation").
    UnaskedProtobuf = "unasked-protobuf",
    /// The `Content-Type` of protobuf has no parameters (transports/http-protobuf, "Negotiation").
    ProtobufContentType = "protobuf-content-type",
    /// A response is closed when the last of its runs has ended (transports/http-sse, "Response").
    ResponseLeftOpen = "response-left-open",
}

impl fmt::Display for WarningRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for WarningRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something a developer should know about a stream or an input that was accepted all the same.
///
/// About one event, or one input, at most [`MOST_WARNINGS`] are given. Where there is more to say, one more warning says how
/// much: it has the rule of one that was left out where that is known, else `unknown-member`, and no path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Why it was given.
    pub rule: WarningRule,
    /// What happened, to what, and what was done. One line of at most 4096 bytes, whatever the peer wrote.
    pub message: String,
    /// The event of the stream that it is about, counted from 0; 0 for a run input.
    pub event: usize,
    /// JSON Pointer of the place in the event, when it is about one. One of more than 1024 bytes is cut, with a `…` at its end.
    pub path: Option<String>,
}

/// How many warnings are given about one event, or one input.
pub const MOST_WARNINGS: usize = 100;

/// The longest pointer in a warning, in bytes.
const MOST_OF_PATH: usize = 1024;

impl Warning {
    /// A warning in which the peer's text may stand.
    pub(crate) fn new(rule: WarningRule, event: usize, message: impl Into<String>, path: Option<String>) -> Self {
        Self { rule, message: sentence(message.into()), event, path: path.map(bounded) }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "event {}: {}", self.event, self.message)
    }
}

/// A pointer that a warning can hold.
pub(crate) fn bounded(mut path: String) -> String {
    cut(&mut path, MOST_OF_PATH);
    path
}

/// The sentence that stands for so many warnings about the same.
pub(crate) fn and_more(left_out: usize, of: &str) -> String {
    format!("{left_out} more of the same {of} {} not told one by one.", if left_out == 1 { "is" } else { "are" })
}

/// Warnings in order, of which a peer can bring about no more than are told of each event.
#[derive(Debug)]
pub(crate) struct Warnings {
    /// What each of them is about, in a word: an event, an input.
    of: &'static str,
    given: Vec<Warning>,
    /// How many of `given` are about the event that the last one is about.
    of_event: usize,
    /// The first of those about this event that were left out, without its words, and their number.
    left_out: Option<(Warning, usize)>,
}

impl Warnings {
    /// None yet; `of` is what they will be about, in a word.
    pub(crate) fn of(of: &'static str) -> Self {
        Self { of, given: Vec::new(), of_event: 0, left_out: None }
    }

    pub(crate) fn push(&mut self, warning: Warning) {
        if self.given.last().is_some_and(|last| last.event != warning.event) {
            self.close_event();
        }
        if self.of_event < MOST_WARNINGS {
            self.of_event += 1;
            self.given.push(warning);
        } else {
            self.leave_out(warning.rule, warning.event, 1);
        }
    }

    /// Takes notice of so many that nobody made. They are about the event that was warned of last.
    pub(crate) fn leave_out(&mut self, rule: WarningRule, event: usize, number: usize) {
        if number == 0 {
            return;
        }
        let first = || (Warning { rule, message: String::new(), event, path: None }, 0);
        self.left_out.get_or_insert_with(first).1 += number;
    }

    /// All of them, and an account of those that were left out. What comes then is counted anew.
    pub(crate) fn take(&mut self) -> Vec<Warning> {
        self.close_event();
        std::mem::take(&mut self.given)
    }

    fn close_event(&mut self) {
        self.of_event = 0;
        if let Some((warning, number)) = self.left_out.take() {
            self.given.push(Warning { message: and_more(number, self.of), ..warning });
        }
    }
}

impl Extend<Warning> for Warnings {
    fn extend<I: IntoIterator<Item = Warning>>(&mut self, warnings: I) {
        warnings.into_iter().for_each(|warning| self.push(warning));
    }
}
