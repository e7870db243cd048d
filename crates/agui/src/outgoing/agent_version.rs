//! How old the agent at the other end is known to be (basic/versioning, "Downgrading").

use std::fmt;
use std::str::FromStr;

use crate::version::PROTOCOL_VERSION;

/// The version of AG-UI that an agent is known to speak.
///
/// Nobody has to know it: an agent whose age is not known is treated as a current one, because guessing downward would
/// degrade what it is sent for no reason (basic/versioning, "Version negotiation"). It is written `1.0`, or, for an agent
/// from before 1.0, as the version of the TypeScript packages that it was made for, such as `0.0.57`; the protocol itself
/// had no number then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentVersion {
    /// From before 1.0.
    Before1_0 {
        /// The last number of the TypeScript packages' version: 57 is 0.0.57.
        release: u32,
    },
    /// 1.0, or not known to be older.
    #[default]
    Current,
}

/// The last release without content parts and without reasoning messages: a message there is a text.
const LAST_OF_TEXT_ALONE: u32 = 39;
/// The last release without subagents.
const LAST_WITHOUT_SUBAGENTS: u32 = 57;

impl AgentVersion {
    /// Whether the agent knows `protocolVersion`, content parts in tool messages, file handles, and lists that are left
    /// out: all that came with 1.0.
    #[must_use]
    pub fn is_current(self) -> bool {
        self == Self::Current
    }

    /// Whether a user message may consist of parts, and reasoning be a message.
    pub(crate) fn knows_content_parts(self) -> bool {
        !matches!(self, Self::Before1_0 { release } if release <= LAST_OF_TEXT_ALONE)
    }

    /// Whether there are subagents, and attribution to them.
    pub(crate) fn knows_subagents(self) -> bool {
        !matches!(self, Self::Before1_0 { release } if release <= LAST_WITHOUT_SUBAGENTS)
    }
}

/// A text that is no [`AgentVersion`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no AG-UI version that an agent can be said to speak; write \"{PROTOCOL_VERSION}\", or, for an agent from \
     before 1.0, the version of the TypeScript packages that it goes with, such as \"0.0.57\""
)]
pub struct UnknownAgentVersion(pub String);

impl FromStr for AgentVersion {
    type Err = UnknownAgentVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<u32>().ok(),
            false => None,
        };
        match text.strip_prefix("0.0.").map(number) {
            Some(Some(release)) => Ok(Self::Before1_0 { release }),
            None if text == PROTOCOL_VERSION => Ok(Self::Current),
            _ => Err(UnknownAgentVersion(text.to_owned())),
        }
    }
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before1_0 { release } => write!(formatter, "0.0.{release}"),
            Self::Current => formatter.write_str(PROTOCOL_VERSION),
        }
    }
}
