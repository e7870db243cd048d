//! The macro that declares the data of a frame type once: its struct, its encoding and its decoding.

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

fn typed<T: DeserializeOwned>(value: Value, key: &'static str) -> Result<T, KeyError> {
    serde_json::from_value(value).map_err(|e| KeyError { key, problem: format!("is not valid: {e}") })
}

/// Declares one data struct. Each field is `required`, `nullable` (always present, `null` when not known) or
/// `optional` (left out when absent); `extra` keeps the keys that this version does not know.
macro_rules! payload {
    (@type required $t:ty) => { $t };
    (@type nullable $t:ty) => { Option<$t> };
    (@type optional $t:ty) => { Option<$t> };
    (@write required $map:ident $self:ident $field:ident) => {
        $map.serialize_entry(stringify!($field), &$self.$field)?
    };
    (@write nullable $map:ident $self:ident $field:ident) => {
        $map.serialize_entry(stringify!($field), &$self.$field)?
    };
    (@write optional $map:ident $self:ident $field:ident) => {
        if let Some(value) = &$self.$field {
            $map.serialize_entry(stringify!($field), value)?
        }
    };
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $presence:ident $field:ident: $t:ty),+ $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: payload!(@type $presence $t),)+
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
