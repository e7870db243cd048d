//! The operator's log: one line for each thing that is told in it, whoever's words are in the line.
//!
//! What is logged holds text that clients, agents, tools and providers chose. This is the one place through which all of it
//! goes, also what a dependency logs, so none of it can end a line and write another, or turn one round.

use std::fmt;

use runwire_agui::one_line;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};

/// The most bytes that one thing may take in the log; the rest is left out.
const MOST_BYTES: usize = 16 * 1024;

/// Writes the fields of a line as `tracing` does, on one line.
#[derive(Debug, Default)]
pub struct OneLine(DefaultFields);

impl<'writer> FormatFields<'writer> for OneLine {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut text = String::new();
        self.0.format_fields(Writer::new(&mut text), fields)?;
        let line = one_line(&text);
        let told = &line[..line.floor_char_boundary(MOST_BYTES)];
        writer.write_str(told)?;
        match line.len() - told.len() {
            0 => Ok(()),
            left_out => write!(writer, "… and {left_out} more bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Logged(Arc<Mutex<Vec<u8>>>);

    impl Write for Logged {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What comes into the log while this is done.
    fn logged(what: impl FnOnce()) -> String {
        let logged = Logged::default();
        let writer = logged.clone();
        let subscriber =
            tracing_subscriber::fmt().fmt_fields(OneLine::default()).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, what);
        String::from_utf8(logged.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn whatever_words_are_logged_they_are_one_line_of_the_log() {
        let theirs = "x\r\n2026-11-30T13:24:06Z ERROR runwire: forged\u{2028}\u{85}\u{202e}";
        let log = logged(|| {
            tracing::warn!("{theirs}");
            tracing::warn!(run_id = %theirs, "a message");
            tracing::warn!(error = ?std::io::Error::other(theirs), "a message");
            let span = tracing::info_span!("span", name = %theirs);
            span.in_scope(|| tracing::warn!("in a span"));
        });
        assert_eq!(log.lines().count(), 4, "{log}");
        assert!(log.ends_with('\n'));
        assert!(!log.contains(['\r', '\u{2028}', '\u{85}', '\u{202e}']), "{log:?}");
        assert!(log.lines().all(|line| line.contains("x\\r\\n2026-11-30T13:24:06Z ERROR runwire: forged")), "{log}");
        assert!(log.lines().nth(1).unwrap().contains(" a message run_id=x"), "{log}");
    }

    #[test]
    fn a_line_of_the_log_has_a_length() {
        let log = logged(|| tracing::warn!("{}", "é".repeat(1 << 20)));
        assert!(log.len() < MOST_BYTES + 200, "{}", log.len());
        assert!(log.contains("é… and 2080"), "{}", &log[log.len() - 60..]);
    }
}
