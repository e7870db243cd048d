//! Content parts on the wire.

use serde_json::{Map, Value, json};

use super::encoder::ProtoEncodeError;
use super::json_value::Json;
use super::wire::{Carried, IntoJson, Room, Unread, message, object_in_json};
use crate::message::{ContentPart, DataSource, FileSource, MediaPart, PartSource, TextPart, UrlSource};

message! {
    TextInputPart of TextPart {
        #[prost(string, tag = "1")] text: String = "text",
        #[prost(string, optional, tag = "2")] id: Option<String> = "id",
        #[prost(message, optional, tag = "3")] metadata: Option<Json> = "metadata",
    }

    MediaInputPart of MediaPart {
        #[prost(message, optional, tag = "1")] source: Option<Source> = "source",
        #[prost(message, optional, tag = "2")] metadata: Option<Json> = "metadata",
        #[prost(string, optional, tag = "3")] id: Option<String> = "id",
    }

    InlineSource of DataSource {
        #[prost(string, tag = "1")] value: String = "value",
        #[prost(string, tag = "2")] mime_type: String = "mimeType",
    }

    LinkedSource of UrlSource {
        #[prost(string, tag = "1")] value: String = "value",
        #[prost(string, optional, tag = "2")] mime_type: Option<String> = "mimeType",
    }

    HeldSource of FileSource {
        #[prost(string, tag = "1")] value: String = "value",
        #[prost(string, optional, tag = "2")] provider: Option<String> = "provider",
        #[prost(string, optional, tag = "3")] mime_type: Option<String> = "mimeType",
    }
}

object_in_json! { TextInputPart; MediaInputPart; InlineSource; LinkedSource; HeldSource; }

/// A part: one of these is there. An arm of a newer version leaves none.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Part {
    #[prost(message, optional, tag = "1")]
    text: Option<TextInputPart>,
    #[prost(message, optional, tag = "2")]
    image: Option<MediaInputPart>,
    #[prost(message, optional, tag = "3")]
    audio: Option<MediaInputPart>,
    #[prost(message, optional, tag = "4")]
    video: Option<MediaInputPart>,
    #[prost(message, optional, tag = "5")]
    document: Option<MediaInputPart>,
}

/// Where a media part's bytes are: one of these is there.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Source {
    #[prost(message, optional, tag = "1")]
    data: Option<InlineSource>,
    #[prost(message, optional, tag = "2")]
    url: Option<LinkedSource>,
    #[prost(message, optional, tag = "3")]
    file: Option<HeldSource>,
}

impl Carried<Part> for ContentPart {
    fn carry(&self) -> Result<Part, ProtoEncodeError> {
        let mut wire = Part::default();
        match self {
            Self::Text(part) => wire.text = Some(part.carry()?),
            Self::Image(part) => wire.image = Some(part.carry()?),
            Self::Audio(part) => wire.audio = Some(part.carry()?),
            Self::Video(part) => wire.video = Some(part.carry()?),
            Self::Document(part) => wire.document = Some(part.carry()?),
        }
        Ok(wire)
    }
}

impl Carried<Option<Source>> for PartSource {
    fn carry(&self) -> Result<Option<Source>, ProtoEncodeError> {
        let mut wire = Source::default();
        match self {
            Self::Data(source) => wire.data = Some(source.carry()?),
            Self::Url(source) => wire.url = Some(source.carry()?),
            Self::File(source) => wire.file = Some(source.carry()?),
        }
        Ok(Some(wire))
    }
}

impl IntoJson for Part {
    fn into_json(self, room: Room) -> Result<Value, Unread> {
        let arms = [
            self.text.map(|part| ("text", part.into_json(room))),
            self.image.map(|part| ("image", part.into_json(room))),
            self.audio.map(|part| ("audio", part.into_json(room))),
            self.video.map(|part| ("video", part.into_json(room))),
            self.document.map(|part| ("document", part.into_json(room))),
        ];
        only(arms, "a content part")
    }
}

impl IntoJson for Source {
    fn into_json(self, room: Room) -> Result<Value, Unread> {
        let arms = [
            self.data.map(|source| ("data", source.into_json(room))),
            self.url.map(|source| ("url", source.into_json(room))),
            self.file.map(|source| ("file", source.into_json(room))),
        ];
        only(arms, "the source of a content part")
    }
}

/// The one arm that is there, with its name as the type.
///
/// Where none is there, a newer version added one that has no name on this wire. It gets one that no version will use, so
/// that enforcement strips it as it does in JSON, and says where it was.
fn only<const N: usize>(arms: [Option<(&'static str, Result<Value, Unread>)>; N], what: &str) -> Result<Value, Unread> {
    let mut arms = arms.into_iter().flatten();
    let Some((name, value)) = arms.next() else { return Ok(json!({ "type": "(not named in protobuf)" })) };
    if arms.next().is_some() {
        return Err(Unread::Malformed(format!("{what} in it is of two kinds")));
    }
    let mut members = Map::new();
    members.insert("type".to_owned(), name.into());
    if let Value::Object(own) = value? {
        members.extend(own);
    }
    Ok(Value::Object(members))
}
