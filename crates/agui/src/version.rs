//! Protocol versions and how they compare (basic/versioning, "Version negotiation").

use std::fmt;
use std::str::FromStr;

/// The version that this crate implements, as it is declared on the wire.
pub const PROTOCOL_VERSION: &str = "1.0";

/// A version identifier, `MAJOR.MINOR`, compared number by number: 1.10 is newer than 1.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolVersion {
    /// The line.
    pub major: u32,
    /// The minor version within the line.
    pub minor: u32,
}

impl ProtocolVersion {
    /// The version that this crate implements.
    pub const CURRENT: Self = Self { major: 1, minor: 0 };
}

/// A declaration that is not `MAJOR.MINOR`. It is handled like a newer version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot interpret the protocol version {0:?}: expected MAJOR.MINOR, such as 1.0")]
pub struct UninterpretableVersion(pub String);

impl FromStr for ProtocolVersion {
    type Err = UninterpretableVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| {
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok()).flatten()
        };
        text.split_once('.')
            .and_then(|(major, minor)| Some(Self { major: number(major)?, minor: number(minor)? }))
            .ok_or_else(|| UninterpretableVersion(text.to_owned()))
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}
