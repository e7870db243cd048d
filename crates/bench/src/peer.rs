//! Peers that are programs of other languages, each a script in `peers/` that measures itself.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::report::Report;

/// What runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Node.js, with the packages of `peers/package.json`.
    TypeScript,
    /// Python, with the packages of `peers/requirements.txt`.
    Python,
}

/// A script that can be run.
pub struct PeerProgram {
    interpreter: PathBuf,
    script: PathBuf,
}

impl PeerProgram {
    /// The script of that name. When what it needs is not set up, this is said on stderr and in the report, and it is
    /// `None`.
    pub fn find(language: Language, script: &str, report: &mut Report) -> Option<PeerProgram> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let (interpreter, needed) = match language {
            Language::TypeScript => (PathBuf::from("node"), folder.join("node_modules/@ag-ui/client")),
            Language::Python => (folder.join(".venv/bin/python"), folder.join(".venv/bin/python")),
        };
        if needed.exists() {
            return Some(PeerProgram { interpreter, script: folder.join(script) });
        }
        let lacking = format!("PEER MISSING: the {language:?} peer is not measured (run crates/bench/peers/setup.sh)");
        eprintln!("runwire-bench: {lacking}");
        report.note(lacking);
        None
    }

    /// Runs the script over a file and gives what it tells, one JSON object; `None` when it takes longer than `patience`.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, file: &Path, patience: Duration) -> anyhow::Result<Option<Value>> {
        let mut child = Command::new(&self.interpreter)
            .arg(&self.script)
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", self.interpreter.display()))?;
        let started = Instant::now();
        // It says one line at its end, which fits any pipe, so waiting for the end first cannot hang.
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if started.elapsed() > patience {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut told = String::new();
        child.stdout.take().context("the script has an output")?.read_to_string(&mut told)?;
        if !status.success() {
            bail!("{} ended with {status}: {told}", self.script.display());
        }
        let told = serde_json::from_str(&told).with_context(|| format!("{} said `{told}`", self.script.display()))?;
        Ok(Some(told))
    }
}
