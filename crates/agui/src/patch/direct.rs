//! A patch from the JSON of a `STATE_DELTA`, when it is to be applied and the event is not wanted.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use crate::any_value;
use crate::enforce::is_json_pointer;
use crate::object::present;
use crate::schema::SAFE_INTEGER;

/// What the event begins with, as most producers write it.
const BEGINNING: &str = "{\"type\":\"STATE_DELTA\",";

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Op {
    Add,
    Replace,
    Remove,
    Move,
    Copy,
    Test,
}

/// An operation without members that none has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Operation<'a> {
    pub(super) op: Op,
    #[serde(borrow)]
    pub(super) path: Cow<'a, str>,
    #[serde(default, deserialize_with = "present")]
    pub(super) from: Option<String>,
    #[serde(default, deserialize_with = "any_value::read_some")]
    pub(super) value: Option<Value>,
}

impl Operation<'_> {
    fn is_well_formed(&self) -> bool {
        is_json_pointer(&self.path)
            && match self.op {
                Op::Add | Op::Replace | Op::Test => self.value.is_some(),
                Op::Move | Op::Copy => self.from.as_deref().is_some_and(is_json_pointer),
                Op::Remove => true,
            }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateDelta<'a> {
    #[serde(rename = "type")]
    _event_type: &'a str,
    #[serde(borrow)]
    delta: Vec<Operation<'a>>,
    #[serde(default, deserialize_with = "present")]
    timestamp: Option<i64>,
}

/// The operations of the event, if it is a `STATE_DELTA` that says no more than these, and they are well-formed; `None`
/// leaves it to be read as an event, and judged.
pub(crate) fn operations(json: &str) -> Option<Vec<Operation<'_>>> {
    if !json.starts_with(BEGINNING) {
        return None;
    }
    let delta: StateDelta<'_> = serde_json::from_str(json).ok()?;
    let is_safe = delta.timestamp.is_none_or(|time| (-SAFE_INTEGER..=SAFE_INTEGER).contains(&time));
    (is_safe && delta.delta.iter().all(Operation::is_well_formed)).then_some(delta.delta)
}
