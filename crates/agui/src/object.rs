//! How the protocol's closed objects are declared.
//!
//! Every object of the schema is closed: it has required members, optional members that are either there or absent
//! (never `null`), and here and there a member whose value is fixed. [`object!`] writes that down once, so that no
//! declaration can forget a rule.

use serde::{Deserialize, Deserializer, de};

/// Reads an optional member that is there. An explicit `null` is refused: absence is spelled by leaving the member out
/// (schema, every optional member).
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    match Option::<T>::deserialize(deserializer)? {
        Some(value) => Ok(Some(value)),
        None => Err(de::Error::custom("null where the member should be left out")),
    }
}

/// Declares one closed object: a struct whose serde form is exactly the schema's, and `new`, which takes the required
/// members and leaves the optional ones absent.
macro_rules! object {
    (
        $(#[$meta:meta])*
        $name:ident {
            $(required { $( $(#[$required_meta:meta])* $required:ident : $required_type:ty ),* $(,)? })?
            $(fixed { $( $(#[$fixed_meta:meta])* $fixed:ident : $fixed_type:ty ),* $(,)? })?
            $(optional { $( $(#[$optional_meta:meta])* $optional:ident : $optional_type:ty ),* $(,)? })?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            $($( $(#[$required_meta])* pub $required: $required_type, )*)?
            $($( $(#[$fixed_meta])* pub $fixed: $fixed_type, )*)?
            $($(
                $(#[$optional_meta])*
                #[serde(
                    default,
                    skip_serializing_if = "Option::is_none",
                    deserialize_with = "crate::object::present"
                )]
                pub $optional: Option<$optional_type>,
            )*)?
        }

        impl $name {
            /// Makes one from its required members; every optional member is absent.
            #[must_use]
            pub fn new($($( $required: impl Into<$required_type> ),*)?) -> Self {
                Self {
                    $($( $required: $required.into(), )*)?
                    $($( $fixed: Default::default(), )*)?
                    $($( $optional: None, )*)?
                }
            }
        }
    };
}

pub(crate) use object;
