//! Enforcement: what survives of a value from a peer (basic/processing).
//!
//! Unrecognised material is not an error, a malformed known value is. A property that the schema does not describe is
//! stripped; so is an unknown member of a union, and where that stood in a required place, what contains it; inside a
//! list the element goes and the list stays. Objects that the schema leaves open keep everything.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::schema::{Kind, Shape};
use crate::warning::{MOST_WARNINGS, Warning, WarningRule, Warnings};

/// A described member that holds something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// JSON Pointer; `/` for the value itself.
    pub(crate) path: String,
    /// What the schema wants.
    pub(crate) expected: String,
    /// What is there.
    pub(crate) found: String,
}

/// Something that was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    rule: WarningRule,
    path: String,
    what: String,
}

impl Note {
    /// The warning about it; `subject` names the value, as in `TEXT_MESSAGE_START`.
    pub(crate) fn into_warning(self, event: usize, subject: &str) -> Warning {
        let message = match self.rule {
            WarningRule::UnknownProperty => {
                format!("{subject} carries {}, which AG-UI 1.0 does not describe; it was stripped.", self.path)
            }
            WarningRule::NullMember => {
                format!("{subject} carries a null at {}; it was read as an absent member.", self.path)
            }
            _ => format!(
                "{subject} carries {} at {}, which AG-UI 1.0 does not describe; it was stripped.",
                self.what, self.path
            ),
        };
        Warning::new(self.rule, event, message, Some(self.path))
    }
}

/// Whether the value itself survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survival {
    /// It does, without what was stripped from it.
    Kept,
    /// It does not: something unrecognised stood in a required place.
    Dropped,
}

/// The outcome of [`enforce`].
#[derive(Debug)]
pub(crate) struct Enforcement {
    /// Whether the value survives, or what is malformed in it.
    pub(crate) verdict: Result<Survival, Malformed>,
    /// What was taken out.
    pub(crate) notes: Notes,
}

/// What was taken out of a value, in order: the first [`MOST_WARNINGS`], and how many more. A peer can put so much into one
/// value that telling of each would take more room than the value.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    first: Vec<Note>,
    /// How many there are, those in `first` included.
    total: usize,
    /// The last of all, if it is not in `first`.
    last: Option<Note>,
}

impl Notes {
    /// Whether nothing was taken out.
    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The first.
    pub(crate) fn into_first(self) -> Option<Note> {
        self.first.into_iter().next()
    }

    /// Warns of each that is kept, and of how many are not. `event` and `subject` are those of [`Note::into_warning`].
    pub(crate) fn warn(self, event: usize, subject: &str, warnings: &mut Warnings) {
        let more = self.total - self.first.len();
        let rule = self.last.map_or(WarningRule::UnknownMember, |note| note.rule);
        warnings.extend(self.first.into_iter().map(|note| note.into_warning(event, subject)));
        warnings.leave_out(rule, event, more);
    }

    fn push(&mut self, note: Note) {
        self.total += 1;
        match self.first.len() < MOST_WARNINGS {
            true => self.first.push(note),
            false => self.last = Some(note),
        }
    }

    /// Takes back the last one, which was pushed last: nothing was taken back since.
    fn take_last(&mut self) -> Option<Note> {
        let last = if self.total > self.first.len() { self.last.take() } else { self.first.pop() };
        self.total -= usize::from(last.is_some());
        last
    }

    /// Takes back all but so many.
    fn truncate(&mut self, total: usize) {
        if total < self.total {
            self.first.truncate(total);
            self.total = total;
            self.last = None;
        }
    }
}

/// Applies the schema to an object of the given shape. With `nulls_are_absent`, a `null` in an optional place that
/// cannot hold one is taken out with a note instead of being malformed.
pub(crate) fn enforce(value: &mut Value, shape: &'static Shape, nulls_are_absent: bool) -> Enforcement {
    let mut enforcer = Enforcer { path: String::new(), notes: Notes::default(), nulls_are_absent };
    let verdict = enforcer.object(value, shape);
    Enforcement { verdict, notes: enforcer.notes }
}

/// Applies the schema to a value of the given kind that is not part of a larger one.
pub(crate) fn enforce_kind(value: &mut Value, kind: &'static Kind) -> Enforcement {
    let mut enforcer = Enforcer { path: String::new(), notes: Notes::default(), nulls_are_absent: false };
    let verdict = enforcer.value(value, kind);
    Enforcement { verdict, notes: enforcer.notes }
}

struct Enforcer {
    path: String,
    notes: Notes,
    nulls_are_absent: bool,
}

impl Enforcer {
    fn value(&mut self, value: &mut Value, kind: &'static Kind) -> Result<Survival, Malformed> {
        match kind {
            Kind::Any => Ok(Survival::Kept),
            Kind::NotNull if value.is_null() => self.malformed("any JSON value but null", value),
            Kind::NotNull => Ok(Survival::Kept),
            Kind::Text if value.is_string() => Ok(Survival::Kept),
            Kind::Text => self.malformed("a string", value),
            Kind::Bool if value.is_boolean() => Ok(Survival::Kept),
            Kind::Bool => self.malformed("a boolean", value),
            Kind::Open if value.is_object() => Ok(Survival::Kept),
            Kind::Open => self.malformed("an object", value),
            Kind::Integer(least, most) => self.integer(value, *least, *most),
            Kind::Pointer => match value.as_str() {
                Some(pointer) if is_json_pointer(pointer) => Ok(Survival::Kept),
                _ => self.malformed("a JSON Pointer", value),
            },
            Kind::Const(expected) if value == expected => Ok(Survival::Kept),
            Kind::Const(expected) => self.malformed(&format!("{expected:?}"), value),
            Kind::OneOf(members) => match value.as_str() {
                Some(member) if members.contains(&member) => Ok(Survival::Kept),
                Some(member) => Ok(self.unrecognised(format!("{member:?}"))),
                None => self.malformed(&format!("one of {}", members.join(", ")), value),
            },
            Kind::Object(shape) => self.object(value, shape),
            Kind::List(element) => self.list(value, element),
            Kind::NonEmptyList(element) => {
                let survival = self.list(value, element)?;
                if value.as_array().is_some_and(Vec::is_empty) {
                    return self.malformed("a list with at least one element", value);
                }
                Ok(survival)
            }
            Kind::Union(tag, members) => self.union(value, tag, members),
            Kind::TextOrList(element) => match value {
                Value::String(_) => Ok(Survival::Kept),
                Value::Array(_) => self.list(value, element),
                _ => self.malformed("a string or a list", value),
            },
        }
    }

    /// JSON has one number type: `5.0` is the whole number 5, and becomes it.
    fn integer(&mut self, value: &mut Value, least: i64, most: i64) -> Result<Survival, Malformed> {
        let whole = match value {
            Value::Number(number) => number.as_i64().or_else(|| {
                // Within the safe range every f64 without a fraction converts exactly.
                number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= most as f64).map(|f| f as i64)
            }),
            _ => None,
        };
        match whole {
            Some(whole) if (least..=most).contains(&whole) => {
                if value.as_i64().is_none() {
                    *value = Value::from(whole);
                }
                Ok(Survival::Kept)
            }
            _ => self.malformed(&format!("a whole number from {least} to {most}"), value),
        }
    }

    fn object(&mut self, value: &mut Value, shape: &'static Shape) -> Result<Survival, Malformed> {
        let Value::Object(members) = value else {
            return self.malformed("an object", value);
        };
        if self.members(members, shape)? == Survival::Dropped {
            return Ok(Survival::Dropped);
        }
        for field in shape.fields() {
            if field.required && !members.contains_key(field.name) {
                let path = format!("{}/{}", self.path, escaped(field.name));
                return Err(Malformed { path, expected: describe(&field.kind), found: "nothing".to_owned() });
            }
        }
        Ok(Survival::Kept)
    }

    /// Every member is looked at before there is a verdict, so that it does not depend on the order of members: what is
    /// unrecognised in a required place drops the object, whatever else is wrong with it.
    fn members(&mut self, members: &mut Map<String, Value>, shape: &'static Shape) -> Result<Survival, Malformed> {
        let noted = self.notes.total;
        let mut stripped = HashSet::new();
        let mut malformed = None;
        let mut dropped_for = None;
        for (name, value) in members.iter_mut() {
            let Some(field) = shape.field(name) else {
                if !shape.open {
                    self.note(WarningRule::UnknownProperty, name, String::new());
                    stripped.insert(name.clone());
                }
                continue;
            };
            if self.nulls_are_absent && !field.required && value.is_null() && !matches!(field.kind, Kind::Any) {
                self.note(WarningRule::NullMember, name, String::new());
                stripped.insert(name.clone());
                continue;
            }
            match self.within(name, |enforcer| enforcer.value(value, &field.kind)) {
                Ok(Survival::Kept) => {}
                Ok(Survival::Dropped) if field.required => dropped_for = dropped_for.or(self.notes.take_last()),
                Ok(Survival::Dropped) => {
                    stripped.insert(name.clone());
                }
                Err(wrong) => malformed = malformed.or(Some(wrong)),
            }
        }
        if let Some(note) = dropped_for {
            // Nothing else of the object is left to tell of.
            self.notes.truncate(noted);
            self.notes.push(note);
            return Ok(Survival::Dropped);
        }
        if let Some(wrong) = malformed {
            return Err(wrong);
        }
        if !stripped.is_empty() {
            members.retain(|name, _| !stripped.contains(name));
        }
        Ok(Survival::Kept)
    }

    fn list(&mut self, value: &mut Value, element: &'static Kind) -> Result<Survival, Malformed> {
        let Value::Array(elements) = value else {
            return self.malformed("a list", value);
        };
        let mut kept = Vec::with_capacity(elements.len());
        for (index, mut entry) in std::mem::take(elements).into_iter().enumerate() {
            if self.within(&index.to_string(), |enforcer| enforcer.value(&mut entry, element))? == Survival::Kept {
                kept.push(entry);
            }
        }
        *elements = kept;
        Ok(Survival::Kept)
    }

    fn union(
        &mut self,
        value: &mut Value,
        tag: &'static str,
        shapes: &'static [(&'static str, &'static Shape)],
    ) -> Result<Survival, Malformed> {
        let Value::Object(members) = &*value else {
            return self.malformed("an object", value);
        };
        match members.get(tag) {
            Some(Value::String(name)) => match shapes.iter().find(|(known, _)| known == name) {
                Some((_, shape)) => self.object(value, shape),
                None => {
                    let what = format!("the {tag} {name:?}");
                    Ok(self.unrecognised(what))
                }
            },
            other => Err(Malformed {
                path: format!("{}/{tag}", self.path),
                expected: "a string".to_owned(),
                found: other.map_or_else(|| "nothing".to_owned(), found),
            }),
        }
    }

    /// Goes one member deeper. When what is there is dropped, the notes about its inside give way to one about itself.
    fn within(
        &mut self,
        member: &str,
        inner: impl FnOnce(&mut Self) -> Result<Survival, Malformed>,
    ) -> Result<Survival, Malformed> {
        let outer = self.path.len();
        let noted = self.notes.total;
        self.path.push('/');
        self.path.push_str(&escaped(member));
        let survival = inner(self);
        if survival == Ok(Survival::Dropped) {
            let what = self.notes.take_last().map(|note| note.what).unwrap_or_default();
            self.notes.truncate(noted);
            self.notes.push(Note { rule: WarningRule::UnknownMember, path: self.path.clone(), what });
        }
        self.path.truncate(outer);
        survival
    }

    fn unrecognised(&mut self, what: String) -> Survival {
        self.notes.push(Note { rule: WarningRule::UnknownMember, path: self.here(), what });
        Survival::Dropped
    }

    fn note(&mut self, rule: WarningRule, member: &str, what: String) {
        let path = format!("{}/{}", self.path, escaped(member));
        self.notes.push(Note { rule, path, what });
    }

    fn malformed(&self, expected: &str, value: &Value) -> Result<Survival, Malformed> {
        Err(Malformed { path: self.here(), expected: expected.to_owned(), found: found(value) })
    }

    fn here(&self) -> String {
        if self.path.is_empty() { "/".to_owned() } else { self.path.clone() }
    }
}

/// What a kind wants, in words.
fn describe(kind: &Kind) -> String {
    match kind {
        Kind::Any => "a JSON value".to_owned(),
        Kind::NotNull => "any JSON value but null".to_owned(),
        Kind::Text => "a string".to_owned(),
        Kind::Bool => "a boolean".to_owned(),
        Kind::Integer(least, most) => format!("a whole number from {least} to {most}"),
        Kind::Open | Kind::Object(_) | Kind::Union(..) => "an object".to_owned(),
        Kind::Pointer => "a JSON Pointer".to_owned(),
        Kind::Const(expected) => format!("{expected:?}"),
        Kind::OneOf(members) => format!("one of {}", members.join(", ")),
        Kind::List(_) => "a list".to_owned(),
        Kind::NonEmptyList(_) => "a list with at least one element".to_owned(),
        Kind::TextOrList(_) => "a string or a list".to_owned(),
    }
}

/// What a value is, in words, without quoting more than a line of it.
pub(crate) fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(boolean) => format!("the boolean {boolean}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 40 => format!("the string {text:?}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Whether the text is a JSON Pointer (RFC 6901, section 3).
pub(crate) fn is_json_pointer(text: &str) -> bool {
    if !text.is_empty() && !text.starts_with('/') {
        return false;
    }
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '~' && !matches!(characters.next(), Some('0' | '1')) {
            return false;
        }
    }
    true
}

/// A member's name as a JSON Pointer token.
fn escaped(member: &str) -> std::borrow::Cow<'_, str> {
    if member.contains(['~', '/']) { member.replace('~', "~0").replace('/', "~1").into() } else { member.into() }
}
