//! Applying a patch: all of it or nothing, and within bounds.
//!
//! What an operation replaces or removes is kept until all have applied, so that undoing costs what was done and not what
//! the document is. Two things that RFC 6902 lets a patch do are refused, because they turn a few bytes of a peer into a
//! client that falls over: nesting deeper than any event could carry, and copying without end.

use serde_json::{Map, Value};

/// How many levels of arrays and objects a document may have: those that fit into an event, which is itself one of the
/// 127 that a JSON parser takes.
const MOST_LEVELS: usize = 126;

/// A document that is copied within, and all that the patch copies, may take about so many bytes of memory together.
const MOST_COPIED_BYTES: usize = 64 * 1024 * 1024;

/// What a value takes in memory beside its text.
const VALUE_BYTES: usize = size_of::<Value>();

/// Applies the operations to `document` in order. When one fails, the document stays as it was, except that a member
/// which was taken out of an object and put back is its last.
///
/// # Errors
///
/// Which operation does not apply, and why.
pub(super) fn apply(document: &mut Value, operations: Vec<Value>) -> Result<(), String> {
    let mut patching = Patching { document, undo: Vec::with_capacity(operations.len()), copied: None };
    for (index, operation) in operations.into_iter().enumerate() {
        if let Err(Failure { at, reason }) = patching.operation(operation) {
            patching.take_back();
            return Err(format!("operation {index} failed at {at:?}: {reason}"));
        }
    }
    Ok(())
}

/// Why an operation does not apply.
struct Failure {
    at: String,
    reason: &'static str,
}

fn failure(at: &str, reason: &'static str) -> Failure {
    Failure { at: at.to_owned(), reason }
}

/// Where in what holds it a value goes in or comes out. What holds it is named by its path.
enum Spot {
    Member(String, String),
    Element(String, usize),
}

/// What takes an operation back, and gives what it brings to light.
enum Undo {
    /// The value goes to the place of what is there.
    Put(String, Value),
    /// What is at the spot comes out.
    Extract(Spot),
    /// The value goes in at the spot.
    Insert(Spot, Value),
    /// What the inner one brings to light goes in at the spot.
    Return(Box<Undo>, Spot),
}

const IN_ORDER: &str = "operations are taken back in the opposite order, so each finds things as it left them";

struct Patching<'a> {
    document: &'a mut Value,
    undo: Vec<Undo>,
    /// What the document took in memory before the first copy, and all copies since.
    copied: Option<usize>,
}

impl Patching<'_> {
    fn operation(&mut self, mut operation: Value) -> Result<(), Failure> {
        let Some(members) = operation.as_object_mut() else { return Err(failure("", "it is no object")) };
        let path = pointer(members, "path")?;
        match members.get("op").and_then(Value::as_str) {
            Some("add") => {
                let value = value(members, &path)?;
                fits(&path, &value)?;
                let undo = self.add(&path, value).map_err(|(failure, _)| failure)?;
                self.undo.push(undo);
                Ok(())
            }
            Some("replace") => {
                let value = value(members, &path)?;
                fits(&path, &value)?;
                let target = self.document.pointer_mut(&path).ok_or_else(|| nothing(&path))?;
                let before = std::mem::replace(target, value);
                self.undo.push(Undo::Put(path, before));
                Ok(())
            }
            Some("remove") => {
                let spot = self.held(&path)?;
                let before = extract(self.document, &spot);
                self.undo.push(Undo::Insert(spot, before));
                Ok(())
            }
            Some("move") => self.relocate(&pointer(members, "from")?, &path),
            Some("copy") => self.copy(&pointer(members, "from")?, &path),
            Some("test") => {
                let value = value(members, &path)?;
                let target = self.document.pointer(&path).ok_or_else(|| nothing(&path))?;
                if equal(target, &value) { Ok(()) } else { Err(failure(&path, "another value is there")) }
            }
            _ => Err(failure(&path, "RFC 6902 has no such operation")),
        }
    }

    fn relocate(&mut self, from: &str, path: &str) -> Result<(), Failure> {
        let moved = self.document.pointer(from).ok_or_else(|| nothing(from))?;
        if from == path {
            return Ok(());
        }
        if path.strip_prefix(from).is_some_and(|inside| inside.starts_with('/')) {
            return Err(failure(path, "a value cannot be moved into itself"));
        }
        // Only on a way down can it come to nest too deep.
        if steps(path) > steps(from) {
            fits(path, moved)?;
        }
        let spot = self.held(from)?;
        let moved = extract(self.document, &spot);
        match self.add(path, moved) {
            Ok(undo) => {
                self.undo.push(Undo::Return(Box::new(undo), spot));
                Ok(())
            }
            Err((failure, moved)) => {
                insert(self.document, spot, moved);
                Err(failure)
            }
        }
    }

    fn copy(&mut self, from: &str, path: &str) -> Result<(), Failure> {
        let source = self.document.pointer(from).ok_or_else(|| nothing(from))?;
        fits(path, source)?;
        let before = self.copied.unwrap_or_else(|| bytes(self.document));
        let copied = before + bytes(source);
        if copied > MOST_COPIED_BYTES {
            return Err(failure(path, "what is copied makes the document too large for any client"));
        }
        let source = source.clone();
        self.copied = Some(copied);
        let undo = self.add(path, source).map_err(|(failure, _)| failure)?;
        self.undo.push(undo);
        Ok(())
    }

    /// Puts a value in, or gives it back with the reason why not.
    fn add(&mut self, path: &str, value: Value) -> Result<Undo, (Failure, Value)> {
        let Some((holder, last)) = path.rsplit_once('/') else {
            return Ok(Undo::Put(String::new(), std::mem::replace(self.document, value)));
        };
        match self.document.pointer_mut(holder) {
            Some(Value::Object(members)) => {
                let name = unescaped(last);
                if let Some(held) = members.get_mut(&name) {
                    return Ok(Undo::Put(path.to_owned(), std::mem::replace(held, value)));
                }
                members.insert(name.clone(), value);
                Ok(Undo::Extract(Spot::Member(holder.to_owned(), name)))
            }
            Some(Value::Array(elements)) => {
                let place = if last == "-" { Some(elements.len()) } else { index(last) };
                let Some(place) = place.filter(|&place| place <= elements.len()) else {
                    return Err((failure(path, "the list has no such place"), value));
                };
                elements.insert(place, value);
                Ok(Undo::Extract(Spot::Element(holder.to_owned(), place)))
            }
            Some(_) => Err((failure(path, "what is there can hold nothing"), value)),
            None => Err((failure(path, "nothing is there that could hold it"), value)),
        }
    }

    /// The spot of something that is there and is not the whole document.
    fn held(&self, path: &str) -> Result<Spot, Failure> {
        let Some((holder, last)) = path.rsplit_once('/') else {
            return Err(failure(path, "the whole document cannot be taken out"));
        };
        let spot = match self.document.pointer(holder) {
            Some(Value::Object(members)) => {
                let name = unescaped(last);
                members.contains_key(&name).then(|| Spot::Member(holder.to_owned(), name))
            }
            Some(Value::Array(elements)) => {
                index(last).filter(|&place| place < elements.len()).map(|place| Spot::Element(holder.to_owned(), place))
            }
            _ => None,
        };
        spot.ok_or_else(|| nothing(path))
    }

    fn take_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            take_back(self.document, undo);
        }
    }
}

fn take_back(document: &mut Value, undo: Undo) -> Value {
    match undo {
        Undo::Put(path, value) => std::mem::replace(document.pointer_mut(&path).expect(IN_ORDER), value),
        Undo::Extract(spot) => extract(document, &spot),
        Undo::Insert(spot, value) => {
            insert(document, spot, value);
            Value::Null
        }
        Undo::Return(inner, spot) => {
            let value = take_back(document, *inner);
            insert(document, spot, value);
            Value::Null
        }
    }
}

/// Takes out what is there.
fn extract(document: &mut Value, spot: &Spot) -> Value {
    let out = match spot {
        Spot::Member(holder, name) => {
            document.pointer_mut(holder).and_then(Value::as_object_mut).and_then(|members| members.remove(name))
        }
        Spot::Element(holder, place) => {
            document.pointer_mut(holder).and_then(Value::as_array_mut).map(|elements| elements.remove(*place))
        }
    };
    out.expect(IN_ORDER)
}

/// Puts back what was taken out.
fn insert(document: &mut Value, spot: Spot, value: Value) {
    match spot {
        Spot::Member(holder, name) => {
            let members = document.pointer_mut(&holder).and_then(Value::as_object_mut).expect(IN_ORDER);
            members.insert(name, value);
        }
        Spot::Element(holder, place) => {
            let elements = document.pointer_mut(&holder).and_then(Value::as_array_mut).expect(IN_ORDER);
            elements.insert(place, value);
        }
    }
}

/// A JSON Pointer that the operation has.
fn pointer(members: &mut Map<String, Value>, name: &str) -> Result<String, Failure> {
    match members.get_mut(name).map(Value::take) {
        Some(Value::String(pointer)) if pointer.is_empty() || pointer.starts_with('/') => Ok(pointer),
        Some(Value::String(pointer)) => Err(failure(&pointer, "it is no JSON Pointer")),
        _ => Err(failure("", "it has no JSON Pointer where one has to be")),
    }
}

/// The value that the operation has.
fn value(members: &mut Map<String, Value>, path: &str) -> Result<Value, Failure> {
    members.get_mut("value").map(Value::take).ok_or_else(|| failure(path, "it has no value"))
}

fn nothing(path: &str) -> Failure {
    failure(path, "nothing is there")
}

/// A value of so many levels may stand there.
fn fits(path: &str, value: &Value) -> Result<(), Failure> {
    let above = steps(path);
    if above + levels(value) > MOST_LEVELS {
        return Err(failure(path, "the document would nest deeper than a client can read"));
    }
    Ok(())
}

fn steps(path: &str) -> usize {
    path.bytes().filter(|&byte| byte == b'/').count()
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(levels).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

/// About what a value takes in memory.
fn bytes(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(elements) => elements.iter().map(bytes).sum(),
            // A name is a string beside its text, and the map keeps a hash and a place for it.
            Value::Object(members) => {
                members.iter().map(|(name, value)| 2 * VALUE_BYTES + name.len() + bytes(value)).sum()
            }
            _ => 0,
        }
}

/// RFC 6902, section 4.6: numbers are equal when they are the same number, however they are written.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() != other.is_f64() && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| equal(one, other)))
        }
        (one, other) => one == other,
    }
}

fn index(step: &str) -> Option<usize> {
    let canonical = step == "0" || (!step.starts_with('0') && step.bytes().all(|byte| byte.is_ascii_digit()));
    if canonical { step.parse().ok() } else { None }
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}
