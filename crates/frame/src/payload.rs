//! The macro that declares the data of a frame type once: its struct, its encoding, its decoding and its schema.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A key of a frame's data is missing or not what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyError {
    pub key: &'static str,
    pub problem: String,
}

/// Takes a key that must be there and must not be null.
pub(crate) fn required<T: DeserializeOwned>(data: &mut Map<String, Value>, key: &'static str) -> Result<T, KeyError> {
    match data.shift_remove(key) {
        None => Err(KeyError { key, problem: "is missing".into() }),
        Some(value) => typed(value, key),
    }
}

/// Takes a key that must be there and may be null.
pub(crate) fn nullable<T: DeserializeOwned>(
    data: &mut Map<String, Value>,
    key: &'static str,
) -> Result<Option<T>, KeyError> {
    match data.shift_remove(key) {
        None => Err(KeyError { key, problem: "is missing; it is null when not known".into() }),
        Some(Value::Null) => Ok(None),
        Some(value) => typed(value, key).map(Some),
    }
}

/// Takes a key that is left out when absent, and is never null.
pub(crate) fn optional<T: DeserializeOwned>(
    data: &mut Map<String, Value>,
    key: &'static str,
) -> Result<Option<T>, KeyError> {
    match data.shift_remove(key) {
        None => Ok(None),
        Some(Value::Null) => Err(KeyError { key, problem: "is null; it is left out when absent".into() }),
        Some(value) => typed(value, key).map(Some),
    }
}

/// Takes a decimal number in a string: digits, and where there is a point, digits on both sides of it.
pub(crate) fn decimal(data: &mut Map<String, Value>, key: &'static str) -> Result<String, KeyError> {
    let amount: String = required(data, key)?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let magnitude = amount.strip_prefix('-').unwrap_or(&amount);
    let valid = match magnitude.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(magnitude),
    };
    if valid {
        Ok(amount)
    } else {
        Err(KeyError { key, problem: format!("is not valid: `{amount}` is no decimal number such as 0.001240") })
    }
}

fn typed<T: DeserializeOwned>(value: Value, key: &'static str) -> Result<T, KeyError> {
    serde_json::from_value(value).map_err(|e| KeyError { key, problem: format!("is not valid: {e}") })
}

/// Declares one object of the protocol: its struct, its reading, its writing and its schema. Each field is `required`,
/// `nullable` (always present, `null` when not known), `optional` (left out when absent) or `decimal` (required, a number
/// written as a string); `extra` keeps the keys that this version does not know.
macro_rules! payload {
    (@type required $t:ty) => { $t };
    (@type nullable $t:ty) => { Option<$t> };
    (@type optional $t:ty) => { Option<$t> };
    (@type decimal $t:ty) => { $t };
    (@schema decimal $t:ty) => { serde_json::json!({ "type": "string", "pattern": r"^-?\d+(\.\d+)?$" }) };
    (@schema $presence:ident $t:ty) => { <$t as $crate::schema::Described>::schema() };
    (@write required $map:ident $self:ident $field:ident) => {
        $map.serialize_entry(stringify!($field), &$self.$field)?
    };
    (@write nullable $map:ident $self:ident $field:ident) => {
        $map.serialize_entry(stringify!($field), &$self.$field)?
    };
    (@write decimal $map:ident $self:ident $field:ident) => {
        $map.serialize_entry(stringify!($field), &$self.$field)?
    };
    (@write optional $map:ident $self:ident $field:ident) => {
        if let Some(value) = &$self.$field {
            $map.serialize_entry(stringify!($field), value)?
        }
    };
    (
        $(#[doc = $doc:literal])*
        $(#[derive($($derived:ident),+)])?
        $name:ident { $($(#[doc = $field_doc:literal])+ $presence:ident $field:ident: $t:ty),+ $(,)? }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq $($(, $derived)+)?)]
        pub struct $name {
            $($(#[doc = $field_doc])+ pub $field: payload!(@type $presence $t),)+
            /// Keys that this version does not know, and the additive key `agui`; kept as they came.
            pub extra: serde_json::Map<String, serde_json::Value>,
        }

        impl $name {
            pub(crate) fn from_members(
                mut data: serde_json::Map<String, serde_json::Value>,
            ) -> Result<$name, $crate::payload::KeyError> {
                Ok($name {
                    $($field: $crate::payload::$presence(&mut data, stringify!($field))?,)+
                    extra: data,
                })
            }
        }

        impl $crate::schema::Described for $name {
            fn schema() -> serde_json::Value {
                $crate::schema::object(concat!($($doc),*), [$($crate::schema::Key {
                    name: stringify!($field),
                    presence: stringify!($presence),
                    schema: payload!(@schema $presence $t),
                    doc: concat!($($field_doc),+),
                }),+])
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let members = serde_json::Map::deserialize(deserializer)?;
                $name::from_members(members)
                    .map_err(|e| serde::de::Error::custom(format_args!("`{}` {}", e.key, e.problem)))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                $(payload!(@write $presence map self $field);)+
                for (key, value) in &self.extra {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    };
}
pub(crate) use payload;
