//! The head of a response, held against the bindings over HTTP.

use std::time::Duration;

use crate::check::finding::name;
use crate::proto::{self, Accept};
use crate::warning::WarningRule;

/// How an agent answered over HTTP, before the first byte of the stream.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// The status of the response.
    pub status: u16,
    /// Its `Content-Type`, parameters included.
    pub content_type: &'a str,
    /// What the request took; `None` when that is not known.
    pub accept: Option<Accept>,
}

/// Something about a response that a client may not put up with.
pub(crate) struct Remark {
    pub(crate) rule: WarningRule,
    pub(crate) message: String,
    pub(crate) found: String,
}

impl Answer<'_> {
    /// What the bindings ask to be otherwise.
    pub(crate) fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let Self { status, content_type, accept } = self;
        if *status != 200 {
            let message = format!("The run was answered with status {status}; a run that starts is answered with 200.");
            remarks.push(Remark { rule: WarningRule::ResponseStatus, message, found: format!("status {status}") });
        }
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case(proto::MEDIA_TYPE) {
            return remarks;
        }
        if accept.as_ref().is_some_and(|accept| !accept.admits(proto::MEDIA_TYPE)) {
            let message = "The answer is protobuf, which the request's Accept does not admit; a client that asked for \
                           Server-Sent Events alone cannot read it.";
            let found = format!("Content-Type {essence}");
            remarks.push(Remark { rule: WarningRule::UnaskedProtobuf, message: message.to_owned(), found });
        }
        if *content_type != proto::MEDIA_TYPE {
            let found = format!("Content-Type {}", name(content_type));
            let message = format!(
                "The answer says {found}; it is to be exactly {}, and clients such as @ag-ui/client read anything else as \
                 Server-Sent Events.",
                proto::MEDIA_TYPE
            );
            remarks.push(Remark { rule: WarningRule::ProtobufContentType, message, found });
        }
        remarks
    }
}

/// What there is to say of a response that was open for so long after its last byte, although every run had ended.
pub(crate) fn left_open(waited: Duration) -> Remark {
    let found = format!("{:.1} s without the end of the response", waited.as_secs_f64());
    let message = format!(
        "Every run had ended, and then came {found}; the producer closes it after the last run's terminal event, or a client \
         that waits for its end waits on."
    );
    Remark { rule: WarningRule::ResponseLeftOpen, message, found }
}
