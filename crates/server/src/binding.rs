//! Which of AG-UI's bindings a request is answered in (transports/http-protobuf, "Negotiation").

use axum::http::{HeaderMap, header};
use runwire_agui::Peer;
use runwire_agui::proto::{self, Accept};

/// A form of events over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Server-Sent Events, which have ids.
    Sse,
    /// One protobuf message after the other. They have no ids, so nobody can resume at one.
    Protobuf,
}

/// What a request's `Accept` takes. Weights count only as far as 0 is a refusal: the specification compares none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    sse: bool,
    protobuf: bool,
    /// Whether protobuf was asked for by its name and not by a wildcard.
    protobuf_named: bool,
}

impl Accepted {
    /// A request without the header takes everything.
    pub(crate) fn of(headers: &HeaderMap) -> Accepted {
        let values = headers.get_all(header::ACCEPT).iter().map(|value| value.to_str().unwrap_or_default());
        let accept = Accept::of(values);
        Accepted {
            sse: accept.admits("text/event-stream"),
            protobuf: accept.admits(proto::MEDIA_TYPE),
            protobuf_named: accept.names(proto::MEDIA_TYPE),
        }
    }

    /// The binding to answer in: protobuf where the request admits it, Server-Sent Events otherwise, also for a request that
    /// takes neither.
    ///
    /// Protobuf goes to whoever names it. A wildcard admits it too, but it also admits Server-Sent Events, which can be
    /// resumed and which a person can read: so a wildcard gets these, unless it leaves them out. A client from before 1.0
    /// is never taken to mean protobuf by a wildcard. A request with a cursor asks to resume, which is possible in
    /// Server-Sent Events alone.
    pub(crate) fn binding(self, peer: Peer, cursor: bool) -> Binding {
        let by_wildcard = self.protobuf && !self.sse && peer == Peer::Current;
        if (self.protobuf_named || by_wildcard) && !cursor { Binding::Protobuf } else { Binding::Sse }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PROTO: &str = proto::MEDIA_TYPE;

    fn accepted(value: &str) -> Accepted {
        Accepted::of(&HeaderMap::from_iter([(header::ACCEPT, value.parse().unwrap())]))
    }

    #[test]
    fn protobuf_goes_to_whoever_names_it_with_any_weight_but_0() {
        for named in [
            PROTO.to_owned(),
            PROTO.to_ascii_uppercase(),
            format!("text/event-stream, {PROTO}"),
            format!("{PROTO}, text/event-stream"),
            format!("text/event-stream;q=1.0,{PROTO};q=0.1"),
            format!("*/*, {PROTO} ; q = 0.001"),
        ] {
            for peer in [Peer::Current, Peer::PreV1] {
                assert_eq!(accepted(&named).binding(peer, false), Binding::Protobuf, "{named}");
            }
        }
        for refused in [format!("text/event-stream, {PROTO};q=0"), format!("*/*, {PROTO};q=0.0")] {
            assert_eq!(accepted(&refused).binding(Peer::Current, false), Binding::Sse, "{refused}");
        }
    }

    #[test]
    fn server_sent_events_go_to_everybody_else_who_takes_them() {
        let all = Accepted::of(&HeaderMap::new());
        assert_eq!(all.binding(Peer::Current, false), Binding::Sse);
        for value in ["*/*", "text/event-stream", "application/json, text/event-stream;q=0.5", "TEXT/*", "*/*;q=0.1"] {
            assert_eq!(accepted(value).binding(Peer::Current, false), Binding::Sse, "{value}");
        }
    }

    #[test]
    fn a_wildcard_that_leaves_out_server_sent_events_means_protobuf_but_not_from_a_client_before_1_0() {
        for value in ["application/*", "text/html, application/*", "*/*, text/event-stream;q=0"] {
            assert_eq!(accepted(value).binding(Peer::Current, false), Binding::Protobuf, "{value}");
            assert_eq!(accepted(value).binding(Peer::PreV1, false), Binding::Sse, "{value}");
        }
    }

    #[test]
    fn a_request_with_a_cursor_is_answered_in_the_binding_that_resumes() {
        assert_eq!(accepted(&format!("text/event-stream, {PROTO}")).binding(Peer::Current, true), Binding::Sse);
        for value in [PROTO, "application/*"] {
            assert_eq!(accepted(value).binding(Peer::Current, true), Binding::Sse, "{value}");
        }
    }

    /// transports/http-protobuf, "Negotiation": protobuf when the request admits it, Server-Sent Events otherwise.
    #[test]
    fn who_takes_neither_gets_server_sent_events() {
        for value in ["application/json", "text/event-stream;q=0", "text/html", ""] {
            for peer in [Peer::Current, Peer::PreV1] {
                assert_eq!(accepted(value).binding(peer, false), Binding::Sse, "{value}");
            }
        }
    }
}
