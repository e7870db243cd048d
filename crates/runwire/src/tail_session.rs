//! `runwire tail --session`

use std::collections::HashMap;
use std::io::{self, Write as _};

use anyhow::Context as _;
use futures_util::StreamExt as _;
use runwire_client::{Server, SessionFollowed};
use runwire_frame::Data;

use crate::exit::Exit;
use crate::plain::Plain;
use crate::printer::{Printer, Style};

/// Follows all runs of a session, until the server refuses to go on or somebody stops it.
pub async fn run(server: &Server, session: String, after: Option<String>, json: bool) -> anyhow::Result<Exit> {
    let mut frames = server.follow_session(session).after(after).start();
    let mut stdout = io::stdout();
    // Runs that go on at the same time come mixed; each has a printer of its own, because segments are a run's own.
    let mut printers: HashMap<String, Printer<Vec<u8>>> = HashMap::new();
    let (mut shown, mut line_open) = (String::new(), false);
    while let Some(followed) = frames.next().await {
        match followed? {
            SessionFollowed::Frame { body, .. } if json => {
                stdout.write_all(&body)?;
                stdout.write_all(b"\n")?;
                stdout.flush()?;
            }
            SessionFollowed::Frame { frame, .. } => {
                let run = frame.run_id.to_string();
                let printer = printers.entry(run.clone()).or_insert_with(|| Printer::new(Vec::new(), Style::detect()));
                printer.frame(&frame)?;
                let text = std::mem::take(printer.out());
                if matches!(frame.data, Data::RunEnd(_)) {
                    printers.remove(&run);
                }
                if text.is_empty() {
                    continue;
                }
                if shown != run {
                    if line_open {
                        writeln!(stdout)?;
                    }
                    // A run that begins says so itself.
                    if !matches!(frame.data, Data::RunStart(_)) {
                        writeln!(stdout, "{}", Style::detect().dim(&format!("run {}", Plain(&run))))?;
                    }
                    shown = run;
                }
                line_open = !text.ends_with(b"\n");
                stdout.write_all(&text)?;
                stdout.flush()?;
            }
            SessionFollowed::Connected { .. } => {}
            SessionFollowed::Disconnected { after, reason, retry_in } => {
                let (after, reason) = (Plain(after.as_deref().unwrap_or("the start")), Plain(&reason.to_string()));
                eprintln!("runwire: the connection was lost after {after} ({reason}); again in {retry_in:?}");
            }
        }
    }
    None.context("the session's stream ended, which none does")
}
