//! Applying a patch: all of it or nothing, and within bounds.
//!
//! What an operation replaces or removes is kept until all have applied, so that undoing costs what was done and not what
//! the document is. Two things that RFC 6902 lets a patch do are refused, because they turn a few bytes of a peer into a
//! client that falls over: nesting deeper than any event could carry, and copying without end.

use std::borrow::Cow;

use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::direct::{Op, Operation};

/// How many levels of arrays and objects a document may have: those that fit into an event, which is itself one of the
/// 127 that a JSON parser takes.
const MOST_LEVELS: usize = 126;

/// A document that is copied within, and all that the patch copies, may take about so many bytes of memory together.
const MOST_COPIED_BYTES: usize = 64 * 1024 * 1024;

/// What a value takes in memory beside its text.
const VALUE_BYTES: usize = size_of::<Value>();

/// About what a document takes in memory, which is of interest from its first copy on: then it is measured, and from there
/// on what goes in and comes out is. So a few bytes of a peer never cost the whole document again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measure(Option<usize>);

impl Measure {
    pub(crate) fn is_taken(self) -> bool {
        self.0.is_some()
    }
}

/// Applies the operations to `document` in order. When one fails, the document stays as it was, except that a member
/// which was taken out of an object and put back is its last.
///
/// # Errors
///
/// Which operation does not apply, and why.
pub(super) fn apply(document: &mut Value, measure: &mut Measure, operations: Vec<Value>) -> Result<(), String> {
    Patching::new(document, measure, operations.len()).all(operations.into_iter(), Patching::operation)
}

/// As [`apply`], for a document that is an object and stays one: a patch that makes something else of it fails.
///
/// # Errors
///
/// As [`apply`].
pub(super) fn apply_to_object(
    document: &mut Value,
    measure: &mut Measure,
    operations: Vec<Value>,
) -> Result<(), String> {
    let mut patching = Patching::new(document, measure, operations.len());
    patching.stays_object = true;
    patching.all(operations.into_iter(), Patching::operation)
}

/// As [`apply`], for operations that were read as such.
pub(super) fn apply_directly(
    document: &mut Value,
    measure: &mut Measure,
    operations: Vec<Operation<'_>>,
) -> Result<(), String> {
    Patching::new(document, measure, operations.len()).all(operations.into_iter(), Patching::direct_operation)
}

/// Why an operation does not apply.
struct Failure {
    at: String,
    reason: &'static str,
}

fn failure(at: &str, reason: &'static str) -> Failure {
    Failure { at: at.to_owned(), reason }
}

/// Where in what holds it a value goes in or comes out: its path, and the place in a list, which the path may not name.
enum Spot<'p> {
    Member(Cow<'p, str>),
    Element(Cow<'p, str>, usize),
}

/// What takes an operation back, and gives what it brings to light.
enum Undo<'p> {
    /// The value goes to the place of what is there.
    Put(Cow<'p, str>, Value),
    /// What is at the spot comes out.
    Extract(Spot<'p>),
    /// The value goes in at the spot.
    Insert(Spot<'p>, Value),
    /// What the inner one brings to light goes in at the spot.
    Return(Box<Undo<'p>>, Spot<'p>),
}

impl Undo<'_> {
    /// What the name takes that the operation put into an object.
    fn named(&self) -> usize {
        match self {
            Self::Extract(spot) => spot.named(),
            Self::Return(undo, _) => undo.named(),
            Self::Put(..) | Self::Insert(..) => 0,
        }
    }

    /// What of the document is kept here, and no longer in it.
    fn gone(&self) -> usize {
        match self {
            Self::Put(_, value) => bytes(value),
            Self::Insert(spot, value) => spot.named() + bytes(value),
            Self::Return(undo, spot) => spot.named() + undo.gone(),
            Self::Extract(_) => 0,
        }
    }
}

impl Spot<'_> {
    /// What the name of the member takes.
    fn named(&self) -> usize {
        match self {
            Self::Member(path) => name_bytes(path.rsplit('/').next().unwrap_or_default()),
            Self::Element(..) => 0,
        }
    }
}

const NO_POINTER: &str = "it has no JSON Pointer where one has to be";
const IN_ORDER: &str = "operations are taken back in the opposite order, so each finds things as it left them";

struct Patching<'d, 'p> {
    document: &'d mut Value,
    undo: Vec<Undo<'p>>,
    stays_object: bool,
    /// What the document takes with all that this patch took out of it, if it is measured.
    size: Option<usize>,
    /// How many operations were done before it was.
    unmeasured: usize,
    measure: &'d mut Measure,
}

impl<'d, 'p> Patching<'d, 'p> {
    fn new(document: &'d mut Value, measure: &'d mut Measure, operations: usize) -> Self {
        let (undo, size) = (Vec::with_capacity(operations), measure.0);
        Self { document, undo, stays_object: false, size, unmeasured: 0, measure }
    }

    fn all<O>(
        mut self,
        operations: impl Iterator<Item = O>,
        apply: impl Fn(&mut Self, O) -> Result<(), Failure>,
    ) -> Result<(), String> {
        for (index, operation) in operations.enumerate() {
            if let Err(Failure { at, reason }) = apply(&mut self, operation) {
                return Err(self.failed(format!("operation {index} failed at {at:?}: {reason}")));
            }
        }
        if self.stays_object && !self.document.is_object() {
            return Err(self.failed("the result is not an object".to_owned()));
        }
        if let Some(size) = self.size {
            let gone = self.undo[self.unmeasured..].iter().map(Undo::gone).sum();
            self.measure.0 = Some(size.saturating_sub(gone));
        }
        Ok(())
    }

    fn failed(mut self, reason: String) -> String {
        self.take_back();
        if self.size.is_some() && !self.measure.is_taken() {
            self.measure.0 = Some(bytes(self.document));
        }
        reason
    }

    /// Keeps what takes an operation back, which put a value of so many bytes into the document.
    fn done(&mut self, undo: Undo<'p>, put_in: Option<usize>) {
        if let (Some(size), Some(put_in)) = (&mut self.size, put_in) {
            *size += put_in + undo.named();
        }
        self.undo.push(undo);
    }

    /// What the value takes, if that is of interest.
    fn bytes(&self, value: &Value) -> Option<usize> {
        self.size.map(|_| bytes(value))
    }

    fn operation(&mut self, mut operation: Value) -> Result<(), Failure> {
        let Some(members) = operation.as_object_mut() else { return Err(failure("", "it is no object")) };
        let path = pointer(members, "path")?;
        match members.get("op").and_then(Value::as_str) {
            Some("add") => {
                let value = value(members, &path)?;
                self.put_in(path.into(), value)
            }
            Some("replace") => {
                let value = value(members, &path)?;
                self.replace(path.into(), value)
            }
            Some("remove") => self.remove(path.into()),
            Some("move") => self.relocate(pointer(members, "from")?.into(), path.into()),
            Some("copy") => self.copy(&pointer(members, "from")?, path.into()),
            Some("test") => {
                let value = value(members, &path)?;
                self.test(&path, &value)
            }
            _ => Err(failure(&path, "RFC 6902 has no such operation")),
        }
    }

    fn direct_operation(&mut self, Operation { op, path, from, value }: Operation<'p>) -> Result<(), Failure> {
        let no_value = |path: &str| failure(path, "it has no value");
        let from = || from.map(Cow::Owned).ok_or_else(|| failure("", NO_POINTER));
        match op {
            Op::Add => {
                let value = value.ok_or_else(|| no_value(&path))?;
                self.put_in(path, value)
            }
            Op::Replace => {
                let value = value.ok_or_else(|| no_value(&path))?;
                self.replace(path, value)
            }
            Op::Remove => self.remove(path),
            Op::Move => self.relocate(from()?, path),
            Op::Copy => self.copy(&from()?, path),
            Op::Test => self.test(&path, &value.ok_or_else(|| no_value(&path))?),
        }
    }

    fn put_in(&mut self, path: Cow<'p, str>, value: Value) -> Result<(), Failure> {
        fits(&path, &value)?;
        let put_in = self.bytes(&value);
        let undo = self.add(path, value).map_err(|(failure, _)| failure)?;
        self.done(undo, put_in);
        Ok(())
    }

    fn replace(&mut self, path: Cow<'p, str>, value: Value) -> Result<(), Failure> {
        fits(&path, &value)?;
        let put_in = self.bytes(&value);
        let target = at_mut(self.document, &path).ok_or_else(|| nothing(&path))?;
        let before = std::mem::replace(target, value);
        self.done(Undo::Put(path, before), put_in);
        Ok(())
    }

    fn remove(&mut self, path: Cow<'p, str>) -> Result<(), Failure> {
        let spot = self.held(path)?;
        let before = extract(self.document, &spot);
        self.done(Undo::Insert(spot, before), Some(0));
        Ok(())
    }

    fn test(&self, path: &str, value: &Value) -> Result<(), Failure> {
        let target = at(self.document, path).ok_or_else(|| nothing(path))?;
        if equal(target, value) { Ok(()) } else { Err(failure(path, "another value is there")) }
    }

    fn relocate(&mut self, from: Cow<'p, str>, path: Cow<'p, str>) -> Result<(), Failure> {
        let moved = at(self.document, &from).ok_or_else(|| nothing(&from))?;
        if from == path {
            return Ok(());
        }
        if path.strip_prefix(&*from).is_some_and(|inside| inside.starts_with('/')) {
            return Err(failure(&path, "a value cannot be moved into itself"));
        }
        // Only on a way down can it come to nest too deep.
        if steps(&path) > steps(&from) {
            fits(&path, moved)?;
        }
        let spot = self.held(from)?;
        let moved = extract(self.document, &spot);
        match self.add(path, moved) {
            Ok(undo) => {
                self.done(Undo::Return(Box::new(undo), spot), Some(0));
                Ok(())
            }
            Err((failure, moved)) => {
                insert(self.document, spot, moved);
                Err(failure)
            }
        }
    }

    fn copy(&mut self, from: &str, path: Cow<'p, str>) -> Result<(), Failure> {
        let source = at(self.document, from).ok_or_else(|| nothing(from))?;
        fits(&path, source)?;
        let (put_in, source) = (bytes(source), source.clone());
        let size = *self.size.get_or_insert_with(|| {
            self.unmeasured = self.undo.len();
            bytes(self.document)
        });
        if size + put_in > MOST_COPIED_BYTES {
            return Err(failure(&path, "what is copied makes the document too large for any client"));
        }
        let undo = self.add(path, source).map_err(|(failure, _)| failure)?;
        self.done(undo, Some(put_in));
        Ok(())
    }

    /// Puts a value in, or gives it back with the reason why not.
    fn add(&mut self, path: Cow<'p, str>, value: Value) -> Result<Undo<'p>, (Failure, Value)> {
        let Some((holder, last)) = path.rsplit_once('/') else {
            return Ok(Undo::Put(path, std::mem::replace(self.document, value)));
        };
        match at_mut(self.document, holder) {
            Some(Value::Object(members)) => match members.entry(unescaped(last)) {
                Entry::Occupied(mut held) => {
                    let before = held.insert(value);
                    Ok(Undo::Put(path, before))
                }
                Entry::Vacant(vacant) => {
                    vacant.insert(value);
                    Ok(Undo::Extract(Spot::Member(path)))
                }
            },
            Some(Value::Array(elements)) => {
                let place = if last == "-" { Some(elements.len()) } else { index(last) };
                let Some(place) = place.filter(|&place| place <= elements.len()) else {
                    return Err((failure(&path, "the list has no such place"), value));
                };
                elements.insert(place, value);
                Ok(Undo::Extract(Spot::Element(path, place)))
            }
            Some(_) => Err((failure(&path, "what is there can hold nothing"), value)),
            None => Err((failure(&path, "nothing is there that could hold it"), value)),
        }
    }

    /// The spot of something that is there and is not the whole document.
    fn held(&self, path: Cow<'p, str>) -> Result<Spot<'p>, Failure> {
        let Some((holder, last)) = path.rsplit_once('/') else {
            return Err(failure(&path, "the whole document cannot be taken out"));
        };
        match at(self.document, holder) {
            Some(Value::Object(members)) if members.contains_key(&*unescaped(last)) => Ok(Spot::Member(path)),
            Some(Value::Array(elements)) => match index(last).filter(|&place| place < elements.len()) {
                Some(place) => Ok(Spot::Element(path, place)),
                None => Err(nothing(&path)),
            },
            _ => Err(nothing(&path)),
        }
    }

    fn take_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            take_back(self.document, undo);
        }
    }
}

fn take_back(document: &mut Value, undo: Undo<'_>) -> Value {
    match undo {
        Undo::Put(path, value) => std::mem::replace(at_mut(document, &path).expect(IN_ORDER), value),
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
fn extract(document: &mut Value, spot: &Spot<'_>) -> Value {
    let (Spot::Member(path) | Spot::Element(path, _)) = spot;
    let (holder, last) = path.rsplit_once('/').expect(IN_ORDER);
    let holder = at_mut(document, holder);
    let out = match spot {
        Spot::Member(_) => holder.and_then(Value::as_object_mut).and_then(|members| members.remove(&*unescaped(last))),
        Spot::Element(_, place) => holder.and_then(Value::as_array_mut).map(|elements| elements.remove(*place)),
    };
    out.expect(IN_ORDER)
}

/// Puts back what was taken out.
fn insert(document: &mut Value, spot: Spot<'_>, value: Value) {
    let (Spot::Member(path) | Spot::Element(path, _)) = &spot;
    let (holder, last) = path.rsplit_once('/').expect(IN_ORDER);
    let holder = at_mut(document, holder);
    match spot {
        Spot::Member(_) => {
            holder.and_then(Value::as_object_mut).expect(IN_ORDER).insert(unescaped(last).into_owned(), value);
        }
        Spot::Element(_, place) => holder.and_then(Value::as_array_mut).expect(IN_ORDER).insert(place, value),
    }
}

/// What a JSON Pointer names. Nothing of the pointer is copied, unless there is something escaped in it.
fn at<'v>(document: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('/').skip(1).try_fold(document, |holder, step| match holder {
        Value::Object(members) => members.get(&*unescaped(step)),
        Value::Array(elements) => elements.get(index(step)?),
        _ => None,
    })
}

/// As [`at`], to be changed.
fn at_mut<'v>(document: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    path.split('/').skip(1).try_fold(document, |holder, step| match holder {
        Value::Object(members) => members.get_mut(&*unescaped(step)),
        Value::Array(elements) => elements.get_mut(index(step)?),
        _ => None,
    })
}

/// A JSON Pointer that the operation has.
fn pointer(members: &mut Map<String, Value>, name: &str) -> Result<String, Failure> {
    match members.get_mut(name).map(Value::take) {
        Some(Value::String(pointer)) if pointer.is_empty() || pointer.starts_with('/') => Ok(pointer),
        Some(Value::String(pointer)) => Err(failure(&pointer, "it is no JSON Pointer")),
        _ => Err(failure("", NO_POINTER)),
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

/// What a member's name takes: it is a string beside its text, and the map keeps a hash and a place for it.
fn name_bytes(name: &str) -> usize {
    2 * VALUE_BYTES + name.len()
}

/// About what a value takes in memory.
fn bytes(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(elements) => elements.iter().map(bytes).sum(),
            Value::Object(members) => members.iter().map(|(name, value)| name_bytes(name) + bytes(value)).sum(),
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

fn unescaped(step: &str) -> Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}
