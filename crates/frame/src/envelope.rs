//! One frame: its seven envelope keys, how they are written, and how they are read back.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::{Data, ErrorData, FrameType, PROTOCOL, Timestamp};

/// The name of a segment within its run, such as `seg_3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(Arc<str>);

impl SegmentId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SegmentId {
    fn from(id: &str) -> SegmentId {
        SegmentId(id.into())
    }
}

impl From<String> for SegmentId {
    fn from(id: String) -> SegmentId {
        SegmentId(id.into())
    }
}

impl std::borrow::Borrow<str> for SegmentId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One numbered record of a run's log, and exactly what frame-protocol clients receive.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Position in the run's log: 1 for the first frame, without holes.
    pub seq: u64,
    /// The run whose log this is.
    pub run_id: Arc<str>,
    /// When it was recorded.
    pub ts: Timestamp,
    /// The segment that it belongs to. Never `None` where [`FrameType::requires_segment`].
    pub segment_id: Option<SegmentId>,
    /// Its type, and what it says.
    pub data: Data,
}

/// The bytes are no frame of protocol version 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or not an object with exactly the seven envelope keys, each of its type.
    #[error("not a frame envelope: {0}")]
    Envelope(String),
    /// The envelope says another protocol version.
    #[error("the frame is of protocol version {0}, and this side speaks version 2")]
    Protocol(u64),
    /// `type` is none of the thirteen.
    #[error("`{0}` is no frame type of protocol version 2")]
    UnknownType(String),
    /// `seq` is 0, which only an error of the connection itself carries.
    #[error("`seq` is 0, and a frame's position starts at 1")]
    SeqZero,
    /// `segment_id` is null on a type that cannot be attributed without it.
    #[error("`segment_id` is null on a {0} frame, which must name its segment")]
    SegmentRequired(FrameType),
    /// A key of `data` is missing or malformed.
    #[error("data of a {frame_type} frame: `{key}` {problem}")]
    Data {
        /// The frame's type.
        frame_type: FrameType,
        /// The key at fault.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// The envelope as it is on the wire. Exactly seven keys: a missing, extra or repeated one is refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    protocol: u64,
    seq: u64,
    run_id: String,
    ts: Timestamp,
    r#type: String,
    #[serde(deserialize_with = "string_or_null")]
    segment_id: Option<String>,
    data: Map<String, Value>,
}

/// Unlike a plain `Option`, the key must be there.
fn string_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

/// What a client receives on a connection: a frame of the log, or an error of the connection itself.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly every value is a frame; boxing it would cost an allocation each")]
pub enum Incoming {
    /// A frame of the run's log.
    Frame(Frame),
    /// An `error` frame with `seq` 0: about this connection, never stored, never a cursor.
    ConnectionError(ErrorData),
}

impl Incoming {
    /// Reads one body as a client receives it.
    ///
    /// # Errors
    /// As [`Frame::decode`], except that `seq` 0 is legal on an `error` frame.
    pub fn decode(body: &[u8]) -> Result<Incoming, DecodeError> {
        let frame = decode(body)?;
        match (frame.seq, frame.data) {
            (0, Data::Error(error)) => Ok(Incoming::ConnectionError(error)),
            (0, _) => Err(DecodeError::SeqZero),
            (_, data) => Ok(Incoming::Frame(Frame { data, ..frame })),
        }
    }
}

impl Frame {
    /// Reads one frame. Keys inside `data` that this version does not know are kept.
    ///
    /// # Errors
    /// [`DecodeError`] says which rule of the envelope or of the type's data is broken, and where.
    pub fn decode(body: &[u8]) -> Result<Frame, DecodeError> {
        // The derived reader would also take the seven values as an array.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(DecodeError::Envelope("a frame is a JSON object".to_owned()));
        }
        let frame = decode(body)?;
        if frame.seq == 0 {
            return Err(DecodeError::SeqZero);
        }
        Ok(frame)
    }

    /// Writes the frame's body: the seven keys in the protocol's order, without spaces. These bytes are stored and
    /// sent as they are, on every transport.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(256);
        self.encode_into(&mut out);
        out.into()
    }

    /// Appends the frame's body to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        encode(out, self.seq, &self.run_id, self.ts, self.segment_id.as_ref(), &self.data);
    }

    /// The body of an error about a connection itself: an `error` frame with `seq` 0, which is never stored and never
    /// a cursor.
    pub fn connection_error(run_id: &str, ts: Timestamp, error: ErrorData) -> Bytes {
        let mut out = Vec::with_capacity(256);
        encode(&mut out, 0, run_id, ts, None, &Data::Error(error));
        out.into()
    }
}

fn encode(out: &mut Vec<u8>, seq: u64, run_id: &str, ts: Timestamp, segment_id: Option<&SegmentId>, data: &Data) {
    use std::io::Write as _;
    const NEVER: &str = "a Vec takes every write, and every key of a frame's data is a string";
    write!(out, r#"{{"protocol":{PROTOCOL},"seq":{seq},"run_id":"#).expect(NEVER);
    serde_json::to_writer(&mut *out, run_id).expect(NEVER);
    write!(out, r#","ts":"{ts}","type":"{}","segment_id":"#, data.frame_type()).expect(NEVER);
    match segment_id {
        Some(id) => serde_json::to_writer(&mut *out, id.as_str()).expect(NEVER),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(br#","data":"#);
    serde_json::to_writer(&mut *out, data).expect(NEVER);
    out.push(b'}');
}

fn decode(body: &[u8]) -> Result<Frame, DecodeError> {
    // The derived reader would also take the seven values as an array.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(DecodeError::Envelope("a frame is a JSON object".to_owned()));
    }
    let envelope: Envelope = match serde_json::from_slice(body) {
        Ok(envelope) => envelope,
        // A frame of another version may have another envelope; its version is what its reader must hear about.
        Err(error) => {
            return Err(match protocol_of(body) {
                Some(version) if version != PROTOCOL => DecodeError::Protocol(version),
                _ => DecodeError::Envelope(error.to_string()),
            });
        }
    };
    if envelope.protocol != PROTOCOL {
        return Err(DecodeError::Protocol(envelope.protocol));
    }
    let Some(frame_type) = FrameType::from_wire(&envelope.r#type) else {
        return Err(DecodeError::UnknownType(envelope.r#type));
    };
    if frame_type.requires_segment() && envelope.segment_id.is_none() {
        return Err(DecodeError::SegmentRequired(frame_type));
    }
    let data = Data::from_members(frame_type, envelope.data).map_err(|e| DecodeError::Data {
        frame_type,
        key: e.key,
        problem: e.problem,
    })?;
    Ok(Frame {
        seq: envelope.seq,
        run_id: envelope.run_id.into(),
        ts: envelope.ts,
        segment_id: envelope.segment_id.map(SegmentId::from),
        data,
    })
}

fn protocol_of(body: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Version {
        protocol: u64,
    }
    serde_json::from_slice::<Version>(body).ok().map(|v| v.protocol)
}
