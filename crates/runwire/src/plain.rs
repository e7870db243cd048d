//! Text that came from outside, as it may be written to a terminal.
//!
//! A terminal obeys control characters, and some others change the direction in which the text around them is shown. An
//! agent, a server or a file must not make it show what is not there, so every command writes what they say through one of
//! these.

use std::fmt::{self, Write as _};

use runwire_agui::steers_text;

/// On one line, with a space for each character that steers the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a>(pub &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| formatter.write_char(if steers_text(c) { ' ' } else { c }))
    }
}

/// As [`Plain`], of a text that may be of any length: so many characters of it.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a>(pub &'a str, pub usize);

impl fmt::Display for Beginning<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(self.1) {
            Some((end, _)) => write!(formatter, "{}…", Plain(&self.0[..end])),
            None => Plain(self.0).fmt(formatter),
        }
    }
}

/// A text of several lines, those after the first set in: none can pass for a line of ours.
#[derive(Clone, Copy, Debug)]
pub struct SetIn<'a>(pub &'a str);

impl fmt::Display for SetIn<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.trim_end().lines().enumerate() {
            let before = if index == 0 { "" } else { "\n  " };
            write!(formatter, "{before}{}", Plain(line))?;
        }
        Ok(())
    }
}

/// A piece of a text that streams, with its line ends and tabs and without anything else that steers the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Streamed<'a>(pub &'a str);

impl fmt::Display for Streamed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.chars().filter(|c| matches!(c, '\n' | '\t') || !steers_text(*c));
        shown.try_for_each(|c| formatter.write_char(c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An escape sequence, a line of its own, the one-character CSI, and text from right to left.
    const SLY: &str = "a\u{1b}[2J\nb\t\u{9b}31m\u{202e}c\u{2028}d\u{2066}\u{200f}e";

    #[test]
    fn nothing_that_steers_the_terminal_is_written() {
        assert_eq!(Plain(SLY).to_string(), "a [2J b  31m c d  e");
        assert_eq!(Beginning(SLY, 7).to_string(), "a [2J b…");
        assert_eq!(Beginning(SLY, 100).to_string(), Plain(SLY).to_string());
        assert_eq!(SetIn(SLY).to_string(), "a [2J\n  b  31m c d  e");
        assert_eq!(Streamed(SLY).to_string(), "a[2J\nb\t31mcde");
    }

    #[test]
    fn what_is_shown_itself_is_written_as_it_is() {
        let text = "\u{5e9}\u{5dc}\u{5d5}\u{5dd}, e\u{301}t\u{e9} \u{1f469}\u{200d}\u{1f4bb}";
        assert_eq!(Plain(text).to_string(), text);
        assert_eq!(Streamed(text).to_string(), text);
        assert_eq!(SetIn("one\n").to_string(), "one");
    }
}
