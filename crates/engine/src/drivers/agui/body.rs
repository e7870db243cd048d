//! The body of an upstream agent's answer, in either of AG-UI's bindings.

use runwire_agui::SseDecoder;
use runwire_agui::proto::{self, ProtoDecoder};

use crate::drivers::relay::Carried;

/// How an upstream agent is asked to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// With Server-Sent Events, and nothing else.
    #[default]
    Sse,
    /// With protobuf frames. An agent that has none answers with Server-Sent Events, and that is as good
    /// (transports/http-protobuf, "Negotiation").
    Protobuf,
}

impl Binding {
    /// What the request says that it accepts. There is no wildcard and no quality in it: naming a media type admits it,
    /// and a client always names Server-Sent Events.
    pub(super) fn accept(self) -> &'static str {
        match self {
            Self::Sse => SSE,
            Self::Protobuf => SSE_AND_PROTOBUF,
        }
    }

    /// Reads a body of this content type; `None` when it is none that was asked for. The response's own header selects the
    /// reader, whichever binding was hoped for.
    pub(super) fn reader(self, content_type: &str, max_event_bytes: usize) -> Option<BodyReader> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(SSE) {
            return Some(BodyReader::Sse(SseDecoder::new(max_event_bytes)));
        }
        (self == Self::Protobuf && essence.eq_ignore_ascii_case(proto::MEDIA_TYPE))
            .then(|| BodyReader::Protobuf(ProtoDecoder::new(max_event_bytes)))
    }
}

const SSE: &str = "text/event-stream";
const SSE_AND_PROTOBUF: &str = "application/vnd.ag-ui.event+proto, text/event-stream";

/// Takes the bytes of a body as they come.
pub(super) enum BodyReader {
    Sse(SseDecoder),
    Protobuf(ProtoDecoder),
}

impl BodyReader {
    /// What the bytes complete, in order. An error says why the body cannot be read on; nothing comes after it.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Result<Carried, String>> {
        match self {
            Self::Sse(decoder) => decoder
                .push(bytes)
                .into_iter()
                .map(|event| event.map(|event| Carried::Json(event.data)).map_err(|error| error.to_string()))
                .collect(),
            Self::Protobuf(decoder) => decoder
                .push(bytes)
                .into_iter()
                .map(|event| event.map(Carried::Protobuf).map_err(|error| error.to_string()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn protobuf_is_read_only_when_it_was_asked_for_and_sse_always() {
        let reads = |binding: Binding, content_type: &str| match binding.reader(content_type, 1024) {
            Some(BodyReader::Sse(_)) => "sse",
            Some(BodyReader::Protobuf(_)) => "protobuf",
            None => "none",
        };
        for (content_type, sse, protobuf) in [
            ("text/event-stream", "sse", "sse"),
            ("Text/Event-Stream; charset=utf-8", "sse", "sse"),
            (proto::MEDIA_TYPE, "none", "protobuf"),
            ("application/json", "none", "none"),
            ("text/event-streams", "none", "none"),
        ] {
            assert_eq!((reads(Binding::Sse, content_type), reads(Binding::Protobuf, content_type)), (sse, protobuf));
        }
        assert!(Binding::Protobuf.accept().split(", ").eq([proto::MEDIA_TYPE, SSE]));
    }
}
