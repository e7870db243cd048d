//! Advice: what conforms, or is not the stream's fault, and still bites people in the field.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::check::finding::{Place, Seen, name};
use crate::event::Event;
use crate::outcome::RunFinishedOutcome;

/// A response that takes at least this long to begin, and then is there at once, was held back on its way.
const HELD_BACK: Duration = Duration::from_secs(1);
/// At once: within this time.
const AT_ONCE: Duration = Duration::from_millis(100);
/// Fewer events than these may well belong together.
const BURST_EVENTS: usize = 5;
/// What many proxies cut is silent for a minute; half of it leaves no doubt that nobody sends signs of life.
const SILENCE: Duration = Duration::from_secs(30);

macro_rules! advice_rules {
    ($( $(#[$doc:meta])* $name:ident = $id:literal ),* $(,)?) => {
        /// Something that a producer would do well to change. Advice never affects the verdict.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum AdviceRule {
            $( $(#[$doc])* $name, )*
        }

        impl AdviceRule {
            /// All advice there is.
            pub const ALL: &'static [AdviceRule] = &[$( AdviceRule::$name ),*];

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

advice_rules! {
    /// Lines end with LF alone; not every client reads CR or CRLF (transports/http-sse, "Response").
    LineEnds = "line-ends",
    /// Events arrive as they are made, not all at once after a wait.
    OneBurst = "one-burst",
    /// A stream that has nothing to say sends a comment now and then, or a proxy cuts it (transports/http-sse,
    /// "Response").
    LongSilence = "long-silence",
    /// `RUN_STARTED` declares the producer's protocol version (basic/versioning, "Version negotiation").
    VersionMissing = "version-missing",
    /// The name of a `CUSTOM` event begins with a vendor's or an application's prefix (events/passthrough, "CUSTOM").
    UnprefixedName = "unprefixed-name",
    /// A `RAW` event says which provider it came from (events/passthrough, "RAW").
    RawWithoutSource = "raw-without-source",
    /// `RAW` comes alongside the events that say the same, never instead of them (events/passthrough, "RAW").
    RawAlone = "raw-alone",
}

impl fmt::Display for AdviceRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for AdviceRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One piece of advice: where it was called for first, and how often in all.
#[derive(Debug)]
pub(crate) struct Advice {
    pub(crate) place: Place,
    pub(crate) excerpt: Option<String>,
    pub(crate) message: String,
    pub(crate) found: String,
    pub(crate) times: usize,
}

/// Watches a stream for what calls for advice. It remembers one place for each rule, however long the stream is.
#[derive(Debug, Default)]
pub(crate) struct Adviser {
    given: BTreeMap<AdviceRule, Advice>,
    /// The first `RAW` of the run, as long as the run said nothing else.
    raw_alone: Option<(Place, Option<String>)>,
    said_otherwise: bool,
    first_byte: Option<Duration>,
    last_byte: Duration,
}

impl Adviser {
    /// An event was delivered.
    pub(crate) fn event(&mut self, event: &Event, seen: Seen<'_>) {
        match event {
            Event::RunStarted(started) => {
                self.raw_alone = None;
                self.said_otherwise = false;
                if started.protocol_version.is_none() {
                    let message = "RUN_STARTED declares no protocolVersion, so clients take the producer for one from \
                                   before 1.0.";
                    self.give(AdviceRule::VersionMissing, seen, message.to_owned(), "no protocolVersion".to_owned());
                }
            }
            Event::Custom(custom) => {
                self.said_otherwise = true;
                self.raw_alone = None;
                if !custom.name.contains(['.', ':', '/']) {
                    let custom = name(&custom.name);
                    let message = format!(
                        "The name '{custom}' of the CUSTOM event has no prefix; names without one are reserved for the \
                         protocol, so call it something like com.example.{custom}."
                    );
                    self.give(AdviceRule::UnprefixedName, seen, message, format!("the name {custom:?}"));
                }
            }
            Event::Raw(raw) => {
                if !self.said_otherwise {
                    self.raw_alone.get_or_insert_with(|| (seen.place, seen.excerpt()));
                }
                if raw.source.is_none() {
                    let message = "The RAW event names no source, so a consumer cannot tell whose event it holds.";
                    self.give(AdviceRule::RawWithoutSource, seen, message.to_owned(), "no source".to_owned());
                }
            }
            Event::RunFinished(finished) => {
                // A question and a result are what the run had to say as well.
                let says_something =
                    finished.result.is_some() || matches!(finished.outcome, Some(RunFinishedOutcome::Interrupt { .. }));
                if let Some((place, excerpt)) = self.raw_alone.take().filter(|_| !says_something) {
                    let message = "The run says what it has to say in RAW events only, which a client must not act on; \
                                   translate them into the events that the protocol has for it.";
                    let found = "RAW events and no other content".to_owned();
                    let advice = Advice { place, excerpt, message: message.to_owned(), found, times: 0 };
                    self.given.entry(AdviceRule::RawAlone).or_insert(advice).times += 1;
                }
            }
            Event::RunError(_) => self.raw_alone = None,
            Event::StepStarted(_) | Event::StepFinished(_) => {}
            _ => {
                self.said_otherwise = true;
                self.raw_alone = None;
            }
        }
    }

    /// Bytes came, so long after the request was sent; `next` is the event that they begin or go on with.
    pub(crate) fn bytes_at(&mut self, at: Duration, next: Place) {
        self.ended_at(at, next);
        self.first_byte.get_or_insert(at);
        self.last_byte = at;
    }

    /// The whole response came between those times after the request was sent. Nothing is known of silences within.
    pub(crate) fn response_between(&mut self, first: Duration, last: Duration, next: Place) {
        self.bytes_at(first, next);
        self.last_byte = last;
    }

    /// The connection ended, so long after the request was sent.
    pub(crate) fn ended_at(&mut self, at: Duration, next: Place) {
        let silence = self.since_last_byte(at);
        if silence > SILENCE {
            let seconds = silence.as_secs();
            let message = format!(
                "Nothing came for {seconds} s; send a comment (a line that begins with ':') every 15 s or so, or a \
                 proxy will take the connection for dead."
            );
            self.give(AdviceRule::LongSilence, next.into(), message, format!("{seconds} s of silence"));
        }
    }

    /// How long it is since bytes came last, so long after the request was sent.
    pub(crate) fn since_last_byte(&self, at: Duration) -> Duration {
        at.saturating_sub(self.last_byte)
    }

    /// The stream ended. `first` is its first event, and `events` how many there were.
    pub(crate) fn end(&mut self, first: Option<Place>, events: usize, carriage_returns: bool) {
        let Some(first) = first else { return };
        if carriage_returns {
            let message = "Lines of the stream end with CR or CRLF; some clients, @ag-ui/client among them, split \
                           events at LF LF alone and read nothing of it.";
            self.give(AdviceRule::LineEnds, first.into(), message.to_owned(), "CR at the end of lines".to_owned());
        }
        if let Some(first_byte) = self.first_byte
            && first_byte >= HELD_BACK
            && events >= BURST_EVENTS
            && self.last_byte.saturating_sub(first_byte) < AT_ONCE
        {
            let wait = first_byte.as_millis();
            let message = format!(
                "All {events} events came at once after {wait} ms: the agent, a framework or a proxy holds the response \
                 back until it is whole. Flush after each event, and have proxies not buffer (X-Accel-Buffering: no)."
            );
            self.give(AdviceRule::OneBurst, first.into(), message, format!("{events} events at once after {wait} ms"));
        }
    }

    /// All advice, in the order of the rules.
    pub(crate) fn into_given(self) -> impl Iterator<Item = (AdviceRule, Advice)> {
        self.given.into_iter()
    }

    fn give(&mut self, rule: AdviceRule, seen: Seen<'_>, message: String, found: String) {
        let advice = self.given.entry(rule).or_insert_with(|| Advice {
            place: seen.place,
            excerpt: seen.excerpt(),
            message,
            found,
            times: 0,
        });
        advice.times += 1;
    }
}
