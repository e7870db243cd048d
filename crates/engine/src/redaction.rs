//! What must not be kept: looked for in the arguments and results of tools and in what is kept of model calls, and replaced
//! before anything of it is written.

use std::borrow::Cow;

use regex::{NoExpand, Regex};
use runwire_bridge::{AFTER_FINISH, Completion, ExchangeEnd, Failure, Suspension, ToolOutput};
use serde_json::{Map, Value};

/// What stands where something was taken out.
pub const REDACTED: &str = "[redacted]";

/// A secret of the configuration that is shorter, in bytes, is not looked for: it would be found in what is none.
pub const SECRET_MIN_BYTES: usize = 8;

/// What is taken out. By default nothing.
///
/// Text that is a JSON object or list is looked at value by value and stays JSON: members by their names, patterns and
/// secrets in each string and each number, and in strings that hold JSON again. Any other text is looked at as it is.
#[derive(Clone, Default)]
pub struct Redaction {
    patterns: Vec<Regex>,
    /// Lower case.
    keys: Vec<String>,
    /// Finds members of these names in text that was to be JSON and is none, such as arguments that were cut off.
    members: Option<Regex>,
    /// The longest first, so that none is cut by one that is part of it.
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redaction {
    /// Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Redaction { patterns, keys, secrets, .. } = self;
        f.debug_struct("Redaction")
            .field("patterns", patterns)
            .field("keys", keys)
            .field("secrets", &secrets.len())
            .finish()
    }
}

impl Redaction {
    /// Takes out what a pattern matches, the values of members of these names (in any case of their letters), and these
    /// secrets, as far as they have [`SECRET_MIN_BYTES`].
    ///
    /// # Errors
    /// When there are more names than one regular expression can look for.
    pub fn new(
        patterns: Vec<Regex>,
        keys: impl IntoIterator<Item = String>,
        secrets: impl IntoIterator<Item = String>,
    ) -> Result<Redaction, regex::Error> {
        let keys: Vec<String> = keys.into_iter().map(|key| key.to_lowercase()).collect();
        let members = match keys.is_empty() {
            true => None,
            false => {
                let names: Vec<String> = keys.iter().map(|key| regex::escape(key)).collect();
                // A value that is an object or a list ends nobody knows where, so it goes with all behind it.
                let value = r#"(?:"(?s:[^"\\]|\\.?)*"?|[\[{](?s:.*)|[^\s,}\]"]+)"#;
                Some(Regex::new(&format!(r#"(?i)("(?:{})"\s*:\s*){value}"#, names.join("|")))?)
            }
        };
        let long = secrets.into_iter().filter(|secret| secret.len() >= SECRET_MIN_BYTES);
        let mut secrets: Vec<String> = long.flat_map(|secret| [inside_of_json(&secret), secret]).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Ok(Redaction { patterns, keys, members, secrets })
    }

    /// Whether nothing is ever taken out.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty() && !self.holds_arguments()
    }

    /// Whether the arguments of calls are looked at, so that they can be written only when they are whole: what is to be
    /// found may be spread over the pieces in which they come. Secrets of the configuration alone are no reason for that.
    pub fn holds_arguments(&self) -> bool {
        !self.patterns.is_empty() || !self.keys.is_empty()
    }

    /// A text, without what is taken out.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let json = text.trim_start().starts_with(['{', '[']);
        let parsed = json.then(|| serde_json::from_str::<Value>(text).ok()).flatten();
        let Some(mut value) = parsed else { return self.plain(text) };
        if self.value(&mut value) {
            return Cow::Owned(value.to_string());
        }
        // Of members with the same name only the last was looked at. What may hide in the others goes with them.
        match self.plain(text) {
            Cow::Borrowed(text) => Cow::Borrowed(text),
            Cow::Owned(_) => Cow::Owned(value.to_string()),
        }
    }

    /// The arguments of a call, without what is taken out.
    pub(crate) fn arguments<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.holds_arguments() { self.text(text) } else { Cow::Borrowed(text) }
    }

    /// Takes out of a JSON value. Says whether something was.
    pub fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::String(text) => match self.text(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(redacted) => {
                    *text = redacted;
                    true
                }
            },
            Value::Number(number) => {
                let found = matches!(self.plain(&number.to_string()), Cow::Owned(_));
                if found {
                    *value = Value::from(REDACTED);
                }
                found
            }
            Value::Array(elements) => elements.iter_mut().fold(false, |found, element| self.value(element) | found),
            Value::Object(members) => self.object(members),
        }
    }

    fn object(&self, members: &mut Map<String, Value>) -> bool {
        let mut found = false;
        for (name, member) in members.iter_mut() {
            if !self.names(name) {
                found |= self.value(member);
            } else if member != REDACTED {
                *member = Value::from(REDACTED);
                found = true;
            }
        }
        if members.keys().any(|name| matches!(self.plain(name), Cow::Owned(_))) {
            let all = std::mem::take(members);
            members.extend(all.into_iter().map(|(name, member)| (self.plain(&name).into_owned(), member)));
            found = true;
        }
        found
    }

    fn names(&self, member: &str) -> bool {
        !self.keys.is_empty() && self.keys.contains(&member.to_lowercase())
    }

    /// A text that is no JSON document.
    fn plain<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        for secret in &self.secrets {
            if redacted.contains(secret.as_str()) {
                redacted = Cow::Owned(redacted.replace(secret.as_str(), REDACTED));
            }
        }
        for pattern in &self.patterns {
            if let Cow::Owned(changed) = pattern.replace_all(&redacted, NoExpand(REDACTED)) {
                redacted = Cow::Owned(changed);
            }
        }
        if let Some(members) = &self.members {
            let with = format!("${{1}}\"{REDACTED}\"");
            if let Cow::Owned(changed) = members.replace_all(&redacted, with) {
                redacted = Cow::Owned(changed);
            }
        }
        // What was taken out before is found again where a pattern or a name fits it; that changes nothing.
        if redacted == text { Cow::Borrowed(text) } else { redacted }
    }

    /// What a tool returned, without what is taken out of its text. The bytes of images and the like are not looked at.
    pub(crate) fn output<'a>(&self, output: &'a ToolOutput) -> Cow<'a, ToolOutput> {
        match output {
            _ if self.is_empty() => Cow::Borrowed(output),
            ToolOutput::Text(text) => match self.text(text) {
                Cow::Borrowed(_) => Cow::Borrowed(output),
                Cow::Owned(redacted) => Cow::Owned(ToolOutput::Text(redacted)),
            },
            ToolOutput::Parts(parts) => {
                let mut parts = parts.clone();
                parts.iter_mut().for_each(|part| self.part(part));
                Cow::Owned(ToolOutput::Parts(parts))
            }
        }
    }

    /// One of AG-UI's content parts: its text, or the address of what it shows.
    pub(crate) fn part(&self, part: &mut Value) {
        let place = if part["source"]["type"] == "url" { "/source/value" } else { "/text" };
        if let Some(text @ Value::String(_)) = part.pointer_mut(place) {
            self.value(text);
        }
    }

    /// What an exchange ended with: its failure, or what it asks. A schema for the answer stays as it is.
    pub(crate) fn exchange_end(&self, end: ExchangeEnd) -> ExchangeEnd {
        let owned = |text: String| self.text(&text).into_owned();
        match end {
            _ if self.is_empty() => end,
            ExchangeEnd::Failed(failure) => ExchangeEnd::Failed(Failure {
                message: owned(failure.message),
                detail: failure.detail.map(owned),
                agui: failure.agui.map(|agui| self.members(agui)),
                ..failure
            }),
            ExchangeEnd::Suspended(mut suspension) => {
                let interrupts = suspension.contract.get_mut("interrupts").and_then(Value::as_array_mut);
                for interrupt in interrupts.into_iter().flatten() {
                    for told in ["message", "metadata"] {
                        if let Some(told) = interrupt.get_mut(told) {
                            self.value(told);
                        }
                    }
                }
                let agui = suspension.agui.map(|agui| self.members(agui));
                ExchangeEnd::Suspended(Suspension { prompt: suspension.prompt.map(owned), agui, ..suspension })
            }
            ExchangeEnd::Completed(completion) => {
                let agui = completion.agui.map(|agui| self.members(agui));
                ExchangeEnd::Completed(Completion { agui, ..completion })
            }
            ExchangeEnd::Cancelled { usage, agui } => {
                ExchangeEnd::Cancelled { usage, agui: agui.map(|agui| self.members(agui)) }
            }
        }
    }

    /// What AG-UI says beyond a frame that begins or ends an exchange: the upstream's own event in it, also in the ending
    /// that a failure came after.
    pub(crate) fn members(&self, mut agui: Map<String, Value>) -> Map<String, Value> {
        if let Some(raw) = agui.get_mut("rawEvent") {
            self.value(raw);
        }
        if let Some(raw) = agui.get_mut(AFTER_FINISH).and_then(|finished| finished.get_mut("rawEvent")) {
            self.value(raw);
        }
        agui
    }
}

/// The text as it stands between the quotes of a JSON string.
fn inside_of_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn redaction(patterns: &[&str], keys: &[&str], secrets: &[&str]) -> Redaction {
        let patterns = patterns.iter().map(|pattern| Regex::new(pattern).unwrap()).collect();
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Redaction::new(patterns, owned(keys), owned(secrets)).unwrap()
    }

    #[test]
    fn what_is_taken_out_of_json_leaves_json() {
        let redaction = redaction(&["sk-[a-z0-9]+", "[0-9]{8,}"], &["Password"], &["s3cret/key\"x"]);
        for (text, kept) in [
            (r#"{"a": "nothing here",  "n": 1}"#, r#"{"a": "nothing here",  "n": 1}"#),
            (r#"{"password":"p"}"#, r#"{"password":"[redacted]"}"#),
            (r#"{"PASSWORD":{"old":[1]},"b":1}"#, r#"{"PASSWORD":"[redacted]","b":1}"#),
            (r#"[{"k":"my sk-abc1 key"}]"#, r#"[{"k":"my [redacted] key"}]"#),
            (r#"{"card":4111111111111111,"sum":5}"#, r#"{"card":"[redacted]","sum":5}"#),
            (r#"{"sk-abc":1}"#, r#"{"[redacted]":1}"#),
            (r#"{"k":"s3cret\/key\"x."}"#, r#"{"k":"[redacted]."}"#),
            (r#"{"k":"\u0073k-abc"}"#, r#"{"k":"[redacted]"}"#),
            // JSON in a string of JSON, as a request has the arguments of earlier calls.
            (r#"{"a":"{\"password\":\"p\"}"}"#, r#"{"a":"{\"password\":\"[redacted]\"}"}"#),
            // The first of two members of one name would still be in the text as it was written.
            (r#"{"k":"sk-abc1","k":"x"}"#, r#"{"k":"x"}"#),
        ] {
            assert_eq!(redaction.text(text), kept, "{text}");
            assert_eq!(redaction.text(kept), kept, "what was taken out is not taken out again");
        }
    }

    #[test]
    fn text_that_is_no_json_is_looked_at_as_it_is() {
        let redaction = redaction(&["sk-[a-z0-9]+"], &["password"], &["s3cret/key\"x"]);
        for (text, kept) in [
            ("nothing", "nothing"),
            ("use sk-abc1, or sk-def2", "use [redacted], or [redacted]"),
            ("it said s3cret/key\"x", "it said [redacted]"),
            ("{\"k\":\"s3cret/key\\\"x", "{\"k\":\"[redacted]"),
            (r#"{"password":"cut off, her"#, r#"{"password":"[redacted]""#),
            (r#"{"password" : "a\"b", "q": 1"#, r#"{"password" : "[redacted]", "q": 1"#),
            (r#"{"q":1,"Password":{"old":"p","q":"#, r#"{"q":1,"Password":"[redacted]""#),
            (r#"{"password":12345"#, r#"{"password":"[redacted]""#),
        ] {
            assert_eq!(redaction.text(text), kept, "{text}");
        }
        assert_eq!(super::Redaction::default().text("sk-abc1"), "sk-abc1");
    }

    #[test]
    fn a_secret_that_is_short_is_none_and_none_is_shown_by_a_dump() {
        let redaction = redaction(&[], &[], &["1", "true", "hunter2hunter2", "hunter2hunter2-and-more"]);
        assert_eq!(redaction.text("1 true hunter2hunter2-and-more"), "1 true [redacted]");
        assert!(!redaction.holds_arguments() && !redaction.is_empty());
        assert_eq!(redaction.arguments("hunter2hunter2"), "hunter2hunter2");
        assert!(!format!("{redaction:?}").contains("hunter2"));
    }

    #[test]
    fn a_schema_for_an_answer_stays_as_it_is() {
        let redaction = redaction(&["sk-[a-z0-9]+"], &["password"], &[]);
        let schema = json!({ "properties": { "password": { "type": "string" } } });
        let asked = |message: &str, metadata: Value| {
            let interrupt =
                json!({ "id": "i", "reason": "r", "message": message, "metadata": metadata, "responseSchema": schema });
            ExchangeEnd::Suspended(Suspension {
                kind: runwire_frame::SuspendKind::Approval,
                contract: Map::from_iter([("interrupts".to_owned(), json!([interrupt]))]),
                prompt: Some(message.to_owned()),
                deadline: None,
                usage: Vec::new(),
                agui: None,
            })
        };
        let end = redaction.exchange_end(asked("Use sk-abc1?", json!({ "arguments": { "password": "p" } })));
        let kept = asked("Use [redacted]?", json!({ "arguments": { "password": "[redacted]" } }));
        assert_eq!(format!("{end:?}"), format!("{kept:?}"));
    }

    #[test]
    fn an_image_is_not_looked_into() {
        let redaction = redaction(&["[A-Z]{4}"], &["value"], &[]);
        let image =
            json!({ "type": "image", "source": { "type": "data", "value": "ABCDABCD", "mimeType": "image/png" } });
        let shown = json!({ "type": "image", "source": { "type": "url", "value": "http://x/?key=ABCD" } });
        let output = ToolOutput::Parts(vec![image.clone(), json!({ "type": "text", "text": "It is ABCD" }), shown]);
        let ToolOutput::Parts(parts) = redaction.output(&output).into_owned() else { panic!() };
        assert_eq!(parts[0], image);
        assert_eq!(parts[1], json!({ "type": "text", "text": "It is [redacted]" }));
        assert_eq!(parts[2]["source"]["value"], "http://x/?key=[redacted]");
    }
}
