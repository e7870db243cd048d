//! Reading any JSON value, with maps of the size that they come to.
//!
//! A map that grows member by member is laid out anew at one, four and eight members, and most objects of a state have
//! about so many. Here the members of the objects that are being read wait on one stack until it is known how many they are.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a member, as serde's derived code calls it.
pub(crate) fn read<'de, D>(deserializer: D) -> Result<Value, D::Error>
where
    D: Deserializer<'de>,
{
    AnyValue { waiting: &mut Vec::new() }.deserialize(deserializer)
}

/// As [`read`], for a member that may be left out.
pub(crate) fn read_some<'de, D>(deserializer: D) -> Result<Option<Value>, D::Error>
where
    D: Deserializer<'de>,
{
    read(deserializer).map(Some)
}

struct AnyValue<'w> {
    waiting: &'w mut Vec<(String, Value)>,
}

impl<'de> DeserializeSeed<'de> for AnyValue<'_> {
    type Value = Value;

    fn deserialize<D>(self, deserializer: D) -> Result<Value, D::Error>
    where
        D: Deserializer<'de>,
    {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A>(self, mut elements: A) -> Result<Value, A::Error>
    where
        A: SeqAccess<'de>,
    {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(AnyValue { waiting: &mut *self.waiting })? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A>(self, mut members: A) -> Result<Value, A::Error>
    where
        A: MapAccess<'de>,
    {
        // What an error leaves behind goes with the stack, since there is nothing to read after one.
        let first = self.waiting.len();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(AnyValue { waiting: &mut *self.waiting })?;
            self.waiting.push((name, value));
        }
        let mut map = Map::with_capacity(self.waiting.len() - first);
        map.extend(self.waiting.drain(first..));
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::Value;

    fn read(json: &str) -> serde_json::Result<Value> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let read = super::read(&mut deserializer)?;
        deserializer.end().map(|()| read)
    }

    /// Also members that come twice, of which the last counts at the place of the first, and numbers of every kind.
    #[test]
    fn a_value_is_what_it_is_to_the_general_reader() {
        for json in [
            r#"{"b":{"x":[1,-1,18446744073709551615,1.5,1e400,-0,-0.0,1e3]},"a":[{},[],null,true,"\u00e9\n"],"b":{"y":{}}}"#,
            r#"{"b":{"x":[1,-1,18446744073709551615,1.5,-0,-0.0,1e3]},"a":[{},[],null,true,"\u00e9\n"],"b":{"y":{}}}"#,
            "null",
            "\"text\"",
            "[[[{\"a\":[{\"b\":{\"c\":1,\"d\":2,\"c\":3}}]}]]]",
            "{\"a\":1",
            "{\"a\":{\"b\":1},}",
        ] {
            let general = serde_json::from_str::<Value>(json).map(|value| value.to_string());
            let read = read(json).map(|value| value.to_string());
            assert_eq!(read.map_err(|error| error.to_string()), general.map_err(|error| error.to_string()), "{json}");
        }
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(read(&deep(127)).is_ok());
        assert!(read(&deep(128)).is_err(), "what nests too deep is refused as ever");
    }
}
