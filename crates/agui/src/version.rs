//! Protocol versions and how they compare (basic/versioning, "Version negotiation").

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::downgrade::Peer;
use crate::one_line::cut;

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

/// What a peer says of its own version: `RunAgentInput.protocolVersion` of a client, `RUN_STARTED.protocolVersion` of an
/// agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Declaration {
    /// The version that this crate implements.
    #[default]
    Current,
    /// A newer one. The run is served all the same: what a newer version adds is safe to meet.
    Newer(ProtocolVersion),
    /// One that cannot be read. It is handled like a newer one.
    Uninterpretable(UninterpretableVersion),
    /// One from before 1.0.
    Older(ProtocolVersion),
    /// None: the peer is from before 1.0, which introduced the declaration.
    Missing,
}

impl Declaration {
    /// Reads the member, absent or not.
    #[must_use]
    pub fn of(declared: Option<&str>) -> Self {
        let Some(declared) = declared else { return Self::Missing };
        match declared.parse::<ProtocolVersion>() {
            Err(error) => Self::Uninterpretable(error),
            Ok(version) => match version.cmp(&ProtocolVersion::CURRENT) {
                Ordering::Greater => Self::Newer(version),
                Ordering::Equal => Self::Current,
                Ordering::Less => Self::Older(version),
            },
        }
    }

    /// Which shapes the peer can be sent. Nobody is treated as older than it says that it is.
    #[must_use]
    pub fn peer(&self) -> Peer {
        match self {
            Self::Current | Self::Newer(_) | Self::Uninterpretable(_) => Peer::Current,
            Self::Older(_) | Self::Missing => Peer::PreV1,
        }
    }
}

/// What a developer should be told of it, as the rest of a sentence that begins with who the peer is.
impl fmt::Display for Declaration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = ProtocolVersion::CURRENT;
        match self {
            Self::Current => write!(formatter, "declares AG-UI {current}"),
            Self::Newer(version) => {
                write!(
                    formatter,
                    "declares AG-UI {version}, which is newer than {current}; it is answered in {current}"
                )
            }
            Self::Uninterpretable(UninterpretableVersion(declared)) => {
                let mut declared = declared.clone();
                cut(&mut declared, 80);
                write!(
                    formatter,
                    "declares the protocol version {declared:?}, which is not MAJOR.MINOR, such as {current}; it is \
                     handled like a newer one and answered in {current}"
                )
            }
            Self::Older(version) => write!(
                formatter,
                "declares AG-UI {version}, which is older than {current}; what that cannot take is reshaped"
            ),
            Self::Missing => write!(
                formatter,
                "declares no protocol version, so it predates {current}; what such a peer cannot take is reshaped"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_compared_number_by_number_and_an_absent_one_means_before_1_0() {
        let version = |major, minor| ProtocolVersion { major, minor };
        let cases = [
            (Some("1.0"), Declaration::Current, Peer::Current),
            (Some("1.10"), Declaration::Newer(version(1, 10)), Peer::Current),
            (Some("2.0"), Declaration::Newer(version(2, 0)), Peer::Current),
            (Some("0.9"), Declaration::Older(version(0, 9)), Peer::PreV1),
            (None, Declaration::Missing, Peer::PreV1),
        ];
        for (declared, expected, peer) in cases {
            let declaration = Declaration::of(declared);
            assert_eq!(declaration, expected);
            assert_eq!(declaration.peer(), peer, "{declared:?}");
        }
    }

    #[test]
    fn a_declaration_that_cannot_be_read_is_handled_like_a_newer_one() {
        for unreadable in ["", "1", "1.", "one.zero", "1.0.0", "1.-1", "+1.0", "1.0 ", "4294967296.0"] {
            let declaration = Declaration::of(Some(unreadable));
            assert_eq!(declaration, Declaration::Uninterpretable(UninterpretableVersion(unreadable.to_owned())));
            assert_eq!(declaration.peer(), Peer::Current);
        }
    }
}
