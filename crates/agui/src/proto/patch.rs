//! JSON Patch operations on the wire.

use serde_json::{Map, Value};

use super::encoder::ProtoEncodeError;
use super::json_value::Json;
use super::wire::{Carried, IntoJson, Member, Room, Unread};

/// The operations of RFC 6902, each at its number.
const NAMES: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];

/// One operation. `value` and `from` are carried wherever they are, also beside an operation that has no use for them.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Operation {
    #[prost(int32, tag = "1")]
    op: i32,
    #[prost(string, tag = "2")]
    path: String,
    #[prost(string, optional, tag = "3")]
    from: Option<String>,
    #[prost(message, optional, tag = "4")]
    value: Option<Json>,
}

impl Carried<Operation> for Value {
    fn carry(&self) -> Result<Operation, ProtoEncodeError> {
        let text = |member: &str| self.get(member).and_then(Value::as_str);
        let op = text("op").and_then(|op| NAMES.into_iter().zip(0..).find_map(|(name, n)| (name == op).then_some(n)));
        let (Some(op), Some(path)) = (op, text("path")) else {
            return Err(ProtoEncodeError::Operation(match text("op") {
                Some(op) => format!("{op:?}"),
                None => "something without an `op`".to_owned(),
            }));
        };
        Ok(Operation {
            op,
            path: path.to_owned(),
            from: text("from").map(str::to_owned),
            value: self.get("value").map(Carried::carry).transpose()?,
        })
    }
}

impl IntoJson for Operation {
    fn into_json(self, room: Room) -> Result<Value, Unread> {
        let room = room.within()?;
        // An operation of a newer version has no name here but its number. Enforcement strips it by that name, and says
        // where it was.
        let known = usize::try_from(self.op).ok().and_then(|op| NAMES.get(op));
        let op = known.map_or_else(|| self.op.to_string(), |name| (*name).to_owned());
        let mut members = Map::new();
        members.insert("op".to_owned(), op.into());
        self.path.put("path", &mut members, room)?;
        self.from.put("from", &mut members, room)?;
        self.value.put("value", &mut members, room)?;
        Ok(Value::Object(members))
    }
}
