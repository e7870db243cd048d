//! Elements of a list, each kept as it came until it is read.
//!
//! A derived message takes some hundred bytes however short its encoding is, and a list of them would take a hundred
//! times what the frame does. Read one after the other, no two of them are there at once.

use std::marker::PhantomData;

use serde_json::Value;

use super::encoder::ProtoEncodeError;
use super::json_value::kept_encoded;
use super::wire::{Carried, IntoJson, Room, Unread};
use crate::unreadable::ReaderLimit;

/// More elements than these have to be of some size. The shortest operation or part that means something has as many bytes
/// as the bound, and a message or a call more; what is shorter costs a peer next to nothing, and whoever reads it some
/// hundred bytes.
const MANY: usize = 10_000;
const LEAST_MEAN_BYTES: usize = 5;

/// One element: the encoding of a `W`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept<W> {
    fields: Vec<u8>,
    of: PhantomData<W>,
}

impl<W> Default for Kept<W> {
    fn default() -> Self {
        Self { fields: Vec::new(), of: PhantomData }
    }
}

kept_encoded! { [W: std::fmt::Debug + Send + Sync] Kept<W>, fields; }

impl<V: Carried<W>, W: prost::Message> Carried<Kept<W>> for V {
    fn carry(&self) -> Result<Kept<W>, ProtoEncodeError> {
        Ok(Kept { fields: self.carry()?.encode_to_vec(), of: PhantomData })
    }
}

impl<W: IntoJson + prost::Message + Default> IntoJson for Kept<W> {
    const EMPTY_IS_ABSENT: bool = W::EMPTY_IS_ABSENT;

    fn into_json(self, room: Room) -> Result<Value, Unread> {
        W::decode(&*self.fields)?.into_json(room)
    }

    fn fits(elements: &[Self]) -> Result<(), Unread> {
        let bytes: usize = elements.iter().map(|element| element.fields.len()).sum();
        if elements.len() > MANY && bytes / elements.len() < LEAST_MEAN_BYTES {
            return Err(Unread::Beyond(ReaderLimit::EmptyElements));
        }
        Ok(())
    }
}
