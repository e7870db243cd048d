//! What a request's `Accept` takes (transports/http-protobuf, "Negotiation").

/// The media ranges of a request. Weights count only as far as 0 is a refusal: the specification compares none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Each range in lower case without its parameters, and whether it is taken or refused.
    ranges: Vec<(String, bool)>,
}

impl Accept {
    /// Reads the values of the header, of which there may be several. A request without the header takes everything.
    pub fn of<'v>(values: impl IntoIterator<Item = &'v str>) -> Self {
        let mut values = values.into_iter().peekable();
        let first = if values.peek().is_none() { Some("*/*") } else { None };
        let ranges = first.into_iter().chain(values).flat_map(|value| value.split(',')).map(range);
        Self { ranges: ranges.filter(|(media, _)| !media.is_empty()).collect() }
    }

    /// Whether the media type is taken, by its name or by a wildcard. The most specific range decides (RFC 9110, section
    /// 12.5.1).
    #[must_use]
    pub fn admits(&self, media_type: &str) -> bool {
        let family = media_type.split('/').next().unwrap_or_default();
        let choice = [media_type, &format!("{family}/*"), "*/*"];
        choice.into_iter().find_map(|range| self.takes(range)).unwrap_or(false)
    }

    /// Whether the media type is taken by its name.
    #[must_use]
    pub fn names(&self, media_type: &str) -> bool {
        self.takes(media_type).unwrap_or(false)
    }

    /// Whether a range is taken or refused; `None` when it is not there.
    fn takes(&self, range: &str) -> Option<bool> {
        let mut given = self.ranges.iter().filter(|(known, _)| known == range).peekable();
        given.peek().is_some().then(|| given.any(|(_, taken)| *taken))
    }
}

fn range(text: &str) -> (String, bool) {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default().to_ascii_lowercase();
    let refused = parts.any(|parameter| {
        let parameter = parameter.to_ascii_lowercase().replace(' ', "");
        parameter.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0))
    });
    (media, !refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::MEDIA_TYPE;

    #[test]
    fn the_most_specific_range_decides_and_a_weight_of_0_refuses() {
        let both = format!("text/event-stream, {MEDIA_TYPE}");
        let last = format!("*/*;q=0.001, {MEDIA_TYPE} ; q = 0.0");
        for (values, admitted, named) in [
            (vec![], true, false),
            (vec![both.as_str()], true, true),
            (vec!["text/event-stream", "APPLICATION/*;q=0.1"], true, false),
            (vec!["*/*"], true, false),
            (vec!["text/event-stream"], false, false),
            (vec!["text/*, application/*;q=0"], false, false),
            (vec![last.as_str()], false, false),
            (vec![""], false, false),
        ] {
            let accept = Accept::of(values.iter().copied());
            assert_eq!((accept.admits(MEDIA_TYPE), accept.names(MEDIA_TYPE)), (admitted, named), "{values:?}");
        }
    }
}
