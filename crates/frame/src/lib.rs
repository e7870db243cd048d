//! Frame protocol v2: the numbered envelope in which Runwire stores and delivers a run.
//!
//! A run's log is a sequence of [`Frame`]s numbered from 1 without holes. This crate knows the shape of one frame
//! (the seven envelope keys, the thirteen types and the keys of their data), how it is encoded to the one byte
//! sequence that every reader receives, how it is read back, and which sequences of frames are a legal log
//! ([`LogValidator`]).
//!
//! It does no I/O, reads no clock and uses no randomness: bytes and time come in as arguments.
//!
//! ```
//! use runwire_frame::{Data, Frame, SegmentId, TextDelta, Timestamp};
//!
//! let frame = Frame {
//!     seq: 7,
//!     run_id: "run_1".into(),
//!     ts: Timestamp::from_unix_millis(0),
//!     segment_id: Some(SegmentId::from("seg_3")),
//!     data: Data::TextDelta(TextDelta::new("Hello".into())),
//! };
//! let body = frame.encode();
//! assert_eq!(
//!     std::str::from_utf8(&body).unwrap(),
//!     r#"{"protocol":2,"seq":7,"run_id":"run_1","ts":"1970-01-01T00:00:00.000Z","type":"text.delta","segment_id":"seg_3","data":{"text":"Hello"}}"#
//! );
//! assert_eq!(Frame::decode(&body).unwrap(), frame);
//! ```

mod code;
mod data;
mod depth;
mod envelope;
mod payload;
mod schema;
mod timestamp;
mod usage;
mod validate;
mod vocabulary;

pub use code::{CloseCode, ErrorCode};
pub use data::{
    Data, ErrorData, FrameType, Notice, Resume, RunEnd, RunStart, RunStatusChange, SegmentEnd, SegmentStart, Suspend,
    TextDelta, ThinkingDelta, ToolCall, ToolResult,
};
pub use depth::{MAX_VALUE_DEPTH, json_depth};
pub use envelope::{DecodeError, Frame, Incoming, SegmentId};
pub use schema::frame_schema;
pub use timestamp::{Timestamp, TimestampError};
pub use usage::{Cost, Usage};
pub use validate::{LogValidator, LogViolation};
pub use vocabulary::{EndStatus, NoticeLevel, RunStatus, SegmentError, SegmentKind, SegmentStatus, SuspendKind};

/// The protocol version that every envelope carries.
pub const PROTOCOL: u64 = 2;

/// The most bytes that [`ToolResult::output_preview`] may hold; it is cut at a character boundary at or below this.
pub const PREVIEW_MAX_BYTES: usize = 2048;
