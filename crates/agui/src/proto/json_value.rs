//! JSON values and objects on the wire: `google.protobuf.Value` and `google.protobuf.Struct`.
//!
//! They are kept as their encoding, which is made and read here rather than by derived messages: that keeps the order of
//! keys, costs one pass however deep a value nests, and lets values nest as deep as in JSON, where derived messages stop
//! after some thirty levels.

use prost::DecodeError;
use prost::bytes::Buf;
use prost::encoding::{
    DecodeContext, WireType, decode_varint, encode_key, encode_varint, encoded_len_varint, skip_field,
};
use serde_json::{Map, Value};

use super::encoder::ProtoEncodeError;
use super::wire::{Carried, Field, Fields, IntoJson, Room, Unread};

/// Any JSON value: the encoding of a `google.protobuf.Value`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Json(Vec<u8>);

/// A JSON object: the encoding of a `google.protobuf.Struct`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Object(Vec<u8>);

/// A message that collects its fields as they are. Protobuf merges a message that is there twice, and collecting both
/// does.
macro_rules! kept_encoded {
    ($([$($generics:tt)*] $name:ty, $fields:tt;)*) => {$(
        impl<$($generics)*> prost::Message for $name {
            fn encode_raw(&self, out: &mut impl prost::bytes::BufMut) {
                out.put_slice(&self.$fields);
            }

            fn merge_field(
                &mut self,
                tag: u32,
                wire_type: prost::encoding::WireType,
                from: &mut impl prost::bytes::Buf,
                context: prost::encoding::DecodeContext,
            ) -> Result<(), prost::DecodeError> {
                $crate::proto::json_value::collect(&mut self.$fields, tag, wire_type, from, context)
            }

            fn encoded_len(&self) -> usize {
                self.$fields.len()
            }

            fn clear(&mut self) {
                self.$fields.clear();
            }
        }
    )*};
}

pub(super) use kept_encoded;

kept_encoded! { [] Json, 0; [] Object, 0; }

/// Adds a field as it came to the encoding of a message.
pub(super) fn collect(
    fields: &mut Vec<u8>,
    tag: u32,
    wire_type: WireType,
    from: &mut impl Buf,
    context: DecodeContext,
) -> Result<(), DecodeError> {
    match wire_type {
        WireType::Varint => {
            let value = decode_varint(from)?;
            encode_key(tag, wire_type, fields);
            encode_varint(value, fields);
            Ok(())
        }
        WireType::SixtyFourBit => {
            let mut value = 0;
            prost::encoding::fixed64::merge(wire_type, &mut value, from, context)?;
            prost::encoding::fixed64::encode(tag, &value, fields);
            Ok(())
        }
        WireType::LengthDelimited => {
            let mut payload = Vec::new();
            prost::encoding::bytes::merge(wire_type, &mut payload, from, context)?;
            prost::encoding::bytes::encode(tag, &payload, fields);
            Ok(())
        }
        _ => skip_field(wire_type, tag, from, context),
    }
}

impl Carried<Json> for Value {
    fn carry(&self) -> Result<Json, ProtoEncodeError> {
        Ok(Json(Writer::write(|sizes| measure(self, sizes), |writer| writer.value(self))))
    }
}

impl Carried<Option<Json>> for Value {
    fn carry(&self) -> Result<Option<Json>, ProtoEncodeError> {
        Carried::<Json>::carry(self).map(Some)
    }
}

impl Carried<Json> for Map<String, Value> {
    fn carry(&self) -> Result<Json, ProtoEncodeError> {
        let Object(fields) = Carried::<Object>::carry(self)?;
        let mut value = Vec::with_capacity(fields.len() + 6);
        prost::encoding::bytes::encode(OBJECT, &fields, &mut value);
        Ok(Json(value))
    }
}

impl Carried<Object> for Map<String, Value> {
    fn carry(&self) -> Result<Object, ProtoEncodeError> {
        Ok(Object(Writer::write(|sizes| measure_object(self, sizes), |writer| writer.object(self))))
    }
}

impl Carried<Option<Object>> for Map<String, Value> {
    fn carry(&self) -> Result<Option<Object>, ProtoEncodeError> {
        Carried::<Object>::carry(self).map(Some)
    }
}

impl IntoJson for Json {
    fn into_json(self, room: Room) -> Result<Value, Unread> {
        read_value(&self.0, room)
    }
}

impl IntoJson for Object {
    fn into_json(self, room: Room) -> Result<Value, Unread> {
        let mut members = Map::new();
        merge_object(&mut members, &self.0, room.within()?)?;
        Ok(Value::Object(members))
    }
}

// The kinds of a value, by field number.
const NULL: u32 = 1;
const NUMBER: u32 = 2;
const TEXT: u32 = 3;
const BOOL: u32 = 4;
const OBJECT: u32 = 5;
const LIST: u32 = 6;
/// The entries of an object, and the elements of a list.
const ENTRY: u32 = 1;
// An entry's fields.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// The size of a length-delimited field, whose key takes one byte because every field number here is below 16.
fn delimited(payload: usize) -> usize {
    1 + encoded_len_varint(payload as u64) + payload
}

fn entry_size(key: &str, value: usize) -> usize {
    let key = if key.is_empty() { 0 } else { delimited(key.len()) };
    key + delimited(value)
}

/// The size of a value's encoding. Notes the size of what is in each array and object on the way down, so that writing,
/// which needs a size before what it is the size of, does not measure again at every level.
fn measure(value: &Value, sizes: &mut Vec<usize>) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 2,
        Value::Number(_) => 9,
        Value::String(text) => delimited(text.len()),
        Value::Array(elements) => {
            let place = sizes.len();
            sizes.push(0);
            sizes[place] = elements.iter().map(|element| delimited(measure(element, sizes))).sum();
            delimited(sizes[place])
        }
        Value::Object(members) => delimited(measure_object(members, sizes)),
    }
}

fn measure_object(members: &Map<String, Value>, sizes: &mut Vec<usize>) -> usize {
    let place = sizes.len();
    sizes.push(0);
    sizes[place] = members.iter().map(|(key, value)| delimited(entry_size(key, measure(value, sizes)))).sum();
    sizes[place]
}

struct Writer {
    out: Vec<u8>,
    /// What [`measure`] noted, in the order in which it is needed.
    sizes: std::vec::IntoIter<usize>,
}

impl Writer {
    fn write(measure: impl FnOnce(&mut Vec<usize>) -> usize, write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut sizes = Vec::new();
        let size = measure(&mut sizes);
        let mut writer = Self { out: Vec::with_capacity(size), sizes: sizes.into_iter() };
        write(&mut writer);
        debug_assert_eq!(writer.out.len(), size, "what was measured is what was written");
        writer.out
    }

    /// The size of a value whose turn it is.
    fn size(&self, value: &Value) -> usize {
        match value {
            Value::Array(_) | Value::Object(_) => delimited(self.sizes.as_slice().first().copied().unwrap_or_default()),
            scalar => measure(scalar, &mut Vec::new()),
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.varint(NULL, 0),
            Value::Bool(boolean) => self.varint(BOOL, u64::from(*boolean)),
            Value::Number(number) => {
                // A number is an i64, a u64 or an f64, and each of them converts.
                let float = number.as_f64().unwrap_or(f64::MAX);
                prost::encoding::double::encode(NUMBER, &float, &mut self.out);
            }
            Value::String(text) => self.text(TEXT, text),
            Value::Array(elements) => {
                self.start(LIST);
                self.sizes.next();
                for element in elements {
                    let size = self.size(element);
                    self.head(ENTRY, size);
                    self.value(element);
                }
            }
            Value::Object(members) => {
                self.start(OBJECT);
                self.object(members);
            }
        }
    }

    /// The entries of an object.
    fn object(&mut self, members: &Map<String, Value>) {
        self.sizes.next();
        for (key, value) in members {
            let size = self.size(value);
            self.head(ENTRY, entry_size(key, size));
            if !key.is_empty() {
                self.text(KEY, key);
            }
            self.head(VALUE, size);
            self.value(value);
        }
    }

    /// Opens the array or object whose turn it is.
    fn start(&mut self, tag: u32) {
        let size = self.sizes.as_slice().first().copied().unwrap_or_default();
        self.head(tag, size);
    }

    fn head(&mut self, tag: u32, size: usize) {
        encode_key(tag, WireType::LengthDelimited, &mut self.out);
        encode_varint(size as u64, &mut self.out);
    }

    fn varint(&mut self, tag: u32, value: u64) {
        encode_key(tag, WireType::Varint, &mut self.out);
        encode_varint(value, &mut self.out);
    }

    fn text(&mut self, tag: u32, text: &str) {
        self.head(tag, text.len());
        self.out.extend_from_slice(text.as_bytes());
    }
}

fn read_value(encoding: &[u8], room: Room) -> Result<Value, Unread> {
    let mut value = None;
    merge_value(&mut value, encoding, room)?;
    value.ok_or_else(|| Unread::Malformed("a JSON value in it is of no kind, not even null".to_owned()))
}

/// Reads a value's encoding over what is there already: the last kind counts, and within objects and lists what came
/// before stays.
fn merge_value(value: &mut Option<Value>, encoding: &[u8], room: Room) -> Result<(), Unread> {
    for field in Fields::of(encoding) {
        match field? {
            (NULL, Field::Varint(_)) => *value = Some(Value::Null),
            (NUMBER, Field::Fixed64(bits)) => *value = Some(number(f64::from_bits(bits))?),
            (TEXT, Field::Bytes(text)) => *value = Some(read_text(text)?.into()),
            (BOOL, Field::Varint(boolean)) => *value = Some((boolean != 0).into()),
            (OBJECT, Field::Bytes(entries)) => {
                let mut members = match value.take() {
                    Some(Value::Object(members)) => members,
                    _ => Map::new(),
                };
                merge_object(&mut members, entries, room.within()?)?;
                *value = Some(Value::Object(members));
            }
            (LIST, Field::Bytes(list)) => {
                let mut elements = match value.take() {
                    Some(Value::Array(elements)) => elements,
                    _ => Vec::new(),
                };
                merge_list(&mut elements, list, room.within()?)?;
                *value = Some(Value::Array(elements));
            }
            (NULL..=LIST, _) => return Err(Unread::Malformed("a JSON value in it has the wrong wire type".to_owned())),
            _ => {}
        }
    }
    Ok(())
}

fn merge_object(members: &mut Map<String, Value>, entries: &[u8], room: Room) -> Result<(), Unread> {
    for field in Fields::of(entries) {
        let (ENTRY, Field::Bytes(entry)) = field? else { continue };
        let mut key = "";
        let mut value = None;
        for field in Fields::of(entry) {
            match field? {
                (KEY, Field::Bytes(text)) => key = read_text(text)?,
                (VALUE, Field::Bytes(encoding)) => merge_value(&mut value, encoding, room)?,
                _ => {}
            }
        }
        let value = value
            .ok_or_else(|| Unread::Malformed(format!("the member {key:?} of a JSON object in it has no value")))?;
        members.insert(key.to_owned(), value);
    }
    Ok(())
}

fn merge_list(elements: &mut Vec<Value>, list: &[u8], room: Room) -> Result<(), Unread> {
    for field in Fields::of(list) {
        if let (ENTRY, Field::Bytes(element)) = field? {
            elements.push(read_value(element, room)?);
        }
    }
    Ok(())
}

fn read_text(bytes: &[u8]) -> Result<&str, Unread> {
    std::str::from_utf8(bytes).map_err(|_| Unread::Malformed("a string in it is not UTF-8".to_owned()))
}

/// A whole number is written without a fraction, as the producer most likely had it: the wire has doubles only.
fn number(float: f64) -> Result<Value, Unread> {
    // The bounds are powers of two, so that the comparisons and the conversions are exact.
    const I64: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    const U64: std::ops::Range<f64> = 0.0..18_446_744_073_709_551_616.0;
    if !float.is_finite() {
        return Err(Unread::Malformed(format!("it holds the number {float}, which JSON has no form for")));
    }
    let whole = float.fract() == 0.0 && !(float == 0.0 && float.is_sign_negative());
    Ok(if whole && I64.contains(&float) {
        Value::from(float as i64)
    } else if whole && U64.contains(&float) {
        Value::from(float as u64)
    } else {
        Value::from(float)
    })
}
