//! What of an agent's runs is kept beside their logs: what its models were asked and what they answered.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::redaction::Redaction;

/// What is kept of an agent's runs, and what is taken out of it before.
#[derive(Clone, Debug)]
pub struct PayloadPolicy {
    /// Whether the requests and responses of model calls are kept. Default no.
    pub model_calls: bool,
    /// The most bytes that are kept of a request, and of a response, as JSON. Default 1 MiB.
    pub max_bytes: usize,
    /// What is taken out of them, and of the arguments and results of tools. Default nothing.
    pub redaction: Redaction,
}

impl Default for PayloadPolicy {
    fn default() -> PayloadPolicy {
        PayloadPolicy { model_calls: false, max_bytes: 1024 * 1024, redaction: Redaction::default() }
    }
}

/// What a model was asked, and what it answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// Provider and model.
    pub model: String,
    /// The body of the request, as it is sent. Headers are no part of it.
    pub request: Value,
    /// What was answered; `None` while nothing was.
    pub response: Option<Value>,
}

impl PayloadPolicy {
    /// The payload of a model call's segment: one JSON object, whatever had to be cut.
    pub(crate) fn of_call(&self, call: ModelCall) -> Bytes {
        let ModelCall { model, request, response } = call;
        let response = response.map(|response| self.part(response));
        json!({ "model": model, "request": self.part(request), "response": response }).to_string().into()
    }

    fn part(&self, mut value: Value) -> Value {
        self.redaction.value(&mut value);
        let text = value.to_string();
        if text.len() <= self.max_bytes {
            return json!({ "bytes": text.len(), "truncated": false, "body": value });
        }
        // The beginning of a JSON document is none, so it is a text.
        let mut end = self.max_bytes;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        json!({ "bytes": text.len(), "truncated": true, "body": &text[..end] })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::redaction::REDACTED;

    #[test]
    fn what_is_too_long_is_cut_at_a_character_and_says_so() {
        let whole = json!({ "text": "äöü" });
        let bytes = whole.to_string().len();
        for max_bytes in 0..=bytes {
            let policy = PayloadPolicy { max_bytes, ..PayloadPolicy::default() };
            let call = ModelCall { model: "p/m".to_owned(), request: whole.clone(), response: None };
            let payload: Value = serde_json::from_slice(&policy.of_call(call)).unwrap();
            assert_eq!(payload["request"]["bytes"], bytes);
            assert_eq!(payload["response"], Value::Null);
            let cut = max_bytes < bytes;
            assert_eq!(payload["request"]["truncated"], cut);
            match payload["request"]["body"].as_str() {
                Some(beginning) => assert!(cut && beginning.len() <= max_bytes && max_bytes - beginning.len() < 2),
                None => assert_eq!(payload["request"]["body"], whole),
            }
        }
    }

    #[test]
    fn what_is_taken_out_is_taken_out_before_the_cut() {
        let redaction = Redaction::new(Vec::new(), [], ["hunter2hunter2".to_owned()]).unwrap();
        let policy = PayloadPolicy { max_bytes: 15, redaction, ..PayloadPolicy::default() };
        let request = json!({ "k": "hunter2hunter2, and more" });
        let payload = policy.of_call(ModelCall { model: "p/m".to_owned(), request, response: None });
        let payload = String::from_utf8(payload.to_vec()).unwrap();
        assert!(payload.contains(&REDACTED[..9]) && !payload.contains("hunter2"), "{payload}");
    }
}
