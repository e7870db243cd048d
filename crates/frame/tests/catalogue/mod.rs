//! The event catalogue of frame protocol v2 as a table: one row a frame type, its data keys in the seed's own words, and
//! a sample of each key's value. Bodies are put together here from text, never by the crate under test.

#![allow(dead_code, reason = "each test program uses its own part of the table")]

/// One row of the seed's table *Frame types*.
pub struct Row {
    /// The seed's first column.
    pub frame_type: &'static str,
    /// Whether the seed's second column says *required*.
    pub segment_required: bool,
    /// The seed's third column, word for word.
    pub keys: &'static str,
    /// A JSON value for each key, in the same order.
    pub samples: &'static [Sample],
}

/// What a key's value may be.
pub enum Sample {
    /// Such a value, and never null: it is known whenever the frame is written.
    Known(&'static str),
    /// Such a value, or null when it is not known.
    Unknowable(&'static str),
}
use Sample::{Known, Unknowable};

/// One data key of a row.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// Whether the seed marks it `?`: left out when absent.
    pub optional: bool,
    /// Whether it is null when not known.
    pub nullable: bool,
    /// A JSON value of it.
    pub sample: &'static str,
}

const SEGMENT_USAGE: &str = concat!(
    r#"{"provider":"openai","model":"gpt-5","input_tokens":30,"output_tokens":12,"total_tokens":42,"#,
    r#""reasoning_tokens":4,"cached_input_tokens":8,"cache_write_input_tokens":0}"#
);
const RUN_USAGE: &str =
    r#"[{"provider":"openai","model":"gpt-5","input_tokens":30},{"model":"local","total_tokens":0}]"#;
const COST: &str = r#"{"currency":"USD","amount":"0.001240"}"#;
const CONTRACT: &str = r#"{"interrupts":[{"id":"int_1","reason":"approval","schema":{"type":"object"}}]}"#;

/// The thirteen rows, in the seed's order.
pub const CATALOGUE: [Row; 13] = [
    Row {
        frame_type: "run.start",
        segment_required: false,
        keys: "agent_id, agent_revision_id, session_id, lane, trigger_kind, attempt",
        samples: &[
            Known(r#""demo""#),
            Unknowable(r#""rev_9""#),
            Unknowable(r#""ses_1""#),
            Unknowable(r#""default""#),
            Unknowable(r#""api""#),
            Known("1"),
        ],
    },
    Row {
        frame_type: "run.status",
        segment_required: false,
        keys: "status, previous",
        samples: &[Known(r#""running""#), Unknowable(r#""queued""#)],
    },
    Row {
        frame_type: "run.end",
        segment_required: false,
        keys: "status, usage, cost, duration_ms, failure_class?, failure_detail?",
        samples: &[
            Known(r#""failed""#),
            Unknowable(RUN_USAGE),
            Unknowable(COST),
            Unknowable("1234"),
            Known(r#""MODEL_ERROR""#),
            Known(r#""the model answered 500""#),
        ],
    },
    Row {
        frame_type: "segment.start",
        segment_required: true,
        keys: "kind, name, parent_segment_id?, group_key?, model_ref?, tool_slug?, child_run_id?",
        samples: &[
            Known(r#""tool""#),
            Unknowable(r#""get_weather""#),
            Known(r#""seg_1""#),
            Known(r#""turn_1""#),
            Known(r#""openai/gpt-5""#),
            Known(r#""get_weather""#),
            Known(r#""run_2""#),
        ],
    },
    Row {
        frame_type: "segment.end",
        segment_required: true,
        keys: "status, duration_ms, usage?, cost?, finish_reason?, error?",
        samples: &[
            Known(r#""failed""#),
            Unknowable("17"),
            Known(SEGMENT_USAGE),
            Known(COST),
            Known(r#""length""#),
            Known(r#"{"code":"TOOL_ERROR","message":"the tool left"}"#),
        ],
    },
    Row { frame_type: "text.delta", segment_required: true, keys: "text", samples: &[Known(r#""Hello""#)] },
    Row { frame_type: "thinking.delta", segment_required: true, keys: "text", samples: &[Known(r#""Hm""#)] },
    Row {
        frame_type: "tool.call",
        segment_required: true,
        keys: "tool_call_id, tool_slug, arguments_delta?, arguments?",
        samples: &[
            Known(r#""call_1""#),
            Known(r#""get_weather""#),
            Known(r#""{\"city\":""#),
            Known(r#""{\"city\":\"Oslo\"}""#),
        ],
    },
    Row {
        frame_type: "tool.result",
        segment_required: true,
        keys: "tool_call_id, ok, output_preview, truncated, bytes",
        samples: &[Known(r#""call_1""#), Known("true"), Unknowable(r#""sunny""#), Known("false"), Known("5")],
    },
    Row {
        frame_type: "suspend",
        segment_required: false,
        keys: "kind, resume_contract, prompt, deadline_at?",
        samples: &[
            Known(r#""approval""#),
            Known(CONTRACT),
            Unknowable(r#""Send the mail?""#),
            Known(r#""2026-11-30T21:18:00.000Z""#),
        ],
    },
    Row {
        frame_type: "resume",
        segment_required: false,
        keys: "kind, resolved_by",
        samples: &[Known(r#""approval""#), Unknowable(r#""deadline""#)],
    },
    Row {
        frame_type: "notice",
        segment_required: false,
        keys: "level, code, message, attributes?",
        samples: &[
            Known(r#""warning""#),
            Known(r#""model_fallback""#),
            Known(r#""the second model answers""#),
            Known(r#"{"from":"a","to":"b","n":[1,null,2.5]}"#),
        ],
    },
    Row {
        frame_type: "error",
        segment_required: false,
        keys: "code, message, retryable",
        samples: &[Known(r#""RATE_LIMITED""#), Known(r#""slow down""#), Known("true")],
    },
];

/// The row of a type.
pub fn row(frame_type: &str) -> &'static Row {
    CATALOGUE.iter().find(|row| row.frame_type == frame_type).expect("the caller names one of the thirteen")
}

impl Row {
    /// Its data keys, in the seed's order.
    pub fn data_keys(&self) -> Vec<Key> {
        let names: Vec<&str> = self.keys.split(", ").collect();
        assert_eq!(names.len(), self.samples.len(), "a sample for each key of {}", self.frame_type);
        names
            .into_iter()
            .zip(self.samples)
            .map(|(written, sample)| {
                let (nullable, sample) = match sample {
                    Known(sample) => (false, *sample),
                    Unknowable(sample) => (true, *sample),
                };
                let name = written.trim_end_matches('?');
                Key { name, optional: name != written, nullable, sample }
            })
            .collect()
    }

    /// A body of this type with every key, those marked `?` included.
    pub fn full(&self) -> String {
        self.body(&object(&self.data_keys(), |key| Some(key.sample)))
    }

    /// A body of this type without the keys marked `?`, and null where a value may be unknown.
    pub fn bare(&self) -> String {
        self.body(&object(&self.data_keys(), |key| match key {
            Key { optional: true, .. } => None,
            Key { nullable: true, .. } => Some("null"),
            Key { sample, .. } => Some(sample),
        }))
    }

    /// The full body with one key's value replaced, or with that key left out.
    pub fn with(&self, name: &str, value: Option<&str>) -> String {
        self.body(&object(&self.data_keys(), |key| if key.name == name { value } else { Some(key.sample) }))
    }

    /// The full body with text such as `"new":1` after the keys that are known.
    pub fn plus(&self, members: &str) -> String {
        let data = object(&self.data_keys(), |key| Some(key.sample));
        let open = data.strip_suffix('}').expect("an object's text ends with its brace");
        self.body(&format!("{open},{members}}}"))
    }

    /// A body of this type around the text of a data object. It names a segment only where it must.
    pub fn body(&self, data: &str) -> String {
        let segment = if self.segment_required { r#""seg_3""# } else { "null" };
        envelope(self.frame_type, segment, data)
    }
}

/// A body around a type, the text of a segment id and the text of a data object.
pub fn envelope(frame_type: &str, segment: &str, data: &str) -> String {
    format!(
        r#"{{"protocol":2,"seq":7,"run_id":"run_1","ts":"2026-11-29T21:18:00.123Z","type":"{frame_type}","segment_id":{segment},"data":{data}}}"#
    )
}

/// The text of an object that holds those keys for which `value` gives one.
pub fn object<'a>(keys: &[Key], value: impl Fn(Key) -> Option<&'a str>) -> String {
    let members: Vec<String> =
        keys.iter().filter_map(|key| value(*key).map(|value| format!(r#""{}":{value}"#, key.name))).collect();
    format!("{{{}}}", members.join(","))
}
