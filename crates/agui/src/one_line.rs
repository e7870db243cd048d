//! Text of others in a sentence of ours.
//!
//! A name, an id or a type that a peer chose stands in warnings, in violations and in logs. With a line break in it, it would
//! end the line there and begin one that looks as if somebody else had written it; a character that changes the direction of
//! text lets a line be read as another. So they are written as escapes.

use std::borrow::Cow;

/// The most bytes of a sentence with text of others in it. What is longer is cut: a peer may give a name of any length.
const MOST_BYTES: usize = 4096;

/// The text as it can stand within one line: characters that [steer text](steers_text) are written as Rust escapes them
/// (`\n`, `\u{202e}`). Everything else, a backslash too, stays as it is, so a text that was written this way stays what it is.
///
/// ```
/// use runwire_agui::one_line;
///
/// assert_eq!(one_line("x\n2026-11-30 ERROR forged"), "x\\n2026-11-30 ERROR forged");
/// assert_eq!(one_line("déjà vu \\n"), "déjà vu \\n");
/// ```
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(steers_text) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match steers_text(character) {
            true => line.extend(character.escape_debug()),
            false => line.push(character),
        }
    }
    Cow::Owned(line)
}

/// Whether a character changes how the text around it is shown instead of being shown itself: control characters, and what
/// sets the direction of text or ends a line of it. What a check tells of a stream in words of its own holds a space in the
/// place of each.
#[must_use]
pub fn steers_text(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// A sentence that may have text of others in it, on one line and at most 4096 bytes long; what is longer is cut in its middle.
pub(crate) fn sentence(text: String) -> String {
    let mut line = match one_line(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(line) => line,
    };
    if line.len() > MOST_BYTES {
        // At its beginning a sentence says what it is about, and at its end what is wrong; between them is a name.
        let end = line.split_off(line.ceil_char_boundary(line.len() - MOST_BYTES / 4));
        cut(&mut line, MOST_BYTES - end.len());
        line.push_str(&end);
    }
    line
}

/// Cuts the text at a character, so that it has no more bytes than these, with a sign of it.
pub(crate) fn cut(text: &mut String, most: usize) {
    const SIGN: &str = "…";
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - SIGN.len()));
        text.push_str(SIGN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_peer_writes_begins_a_line_or_turns_one_round() {
        let outside = ['\n', '\r', '\u{0}', '\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{2028}', '\u{2029}'];
        let turning = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'];
        for character in outside.into_iter().chain(turning) {
            let line = one_line(&format!("a{character}b")).into_owned();
            assert_eq!(line, format!("a{}b", character.escape_debug()));
            assert!(line.len() > 3 && line.chars().all(|c| c.is_ascii_graphic()), "{line}");
            assert_eq!(one_line(&line), line, "it is not escaped twice");
        }
    }

    #[test]
    fn what_stands_in_its_line_stays_as_it_is() {
        for text in ["", "a \\n b", "שלום", "e\u{301} 👩\u{200d}👩", "\u{a0}"] {
            assert!(matches!(one_line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn a_sentence_is_cut_in_its_middle_at_a_character() {
        let short = "é".repeat(MOST_BYTES / 2);
        assert_eq!(sentence(short.clone()), short);
        for name in ["é".repeat(3000), "a é ".repeat(3000)] {
            let cut = sentence(format!("The name '{name}' is long."));
            assert!(cut.len() <= MOST_BYTES && cut.len() > MOST_BYTES - 8, "{}", cut.len());
            assert!(cut.starts_with("The name '") && cut.contains('…') && cut.ends_with("' is long."), "{cut}");
        }
    }
}
