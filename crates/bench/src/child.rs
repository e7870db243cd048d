//! Processes of the benchmark's own: this program again, as a server or as a crowd of readers.
//!
//! Servers and readers are apart, so that processor time can be told apart. A child says what happens in lines of JSON,
//! and hears what to do in lines of one word; it ends when its input does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;

use crate::machine;

/// No step of any benchmark takes nearly so long; a child that is silent for longer is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running child. Killed when dropped before [`ChildProcess::finish`].
pub struct ChildProcess {
    child: Child,
    input: Option<ChildStdin>,
    /// From `reading`; ends with the child's output.
    lines: Receiver<std::io::Result<String>>,
    /// Reads the child's output. Joined in `finish`; ends by itself when the child is gone.
    reading: Option<JoinHandle<()>>,
}

impl ChildProcess {
    /// Starts this program with these arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(args: &[String]) -> anyhow::Result<ChildProcess> {
        let program = std::env::current_exe().context("this program does not know where it is")?;
        let mut command = Command::new(program);
        command.args(args);
        ChildProcess::run(command)
    }

    /// Starts another program that speaks and hears as this one's children do.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(mut command: Command) -> anyhow::Result<ChildProcess> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{:?} cannot be started", command.get_program()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("a child process has no output")?;
        let (send, lines) = mpsc::sync_channel(16);
        let reading = std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(ChildProcess { child, input, lines, reading: Some(reading) })
    }

    /// The next line that the child says.
    ///
    /// # Errors
    /// When it ends, says something else, or is silent for two minutes.
    pub fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                let line = line.context("a child process cannot be read")?;
                serde_json::from_str(&line).with_context(|| format!("a child process said `{line}`"))
            }
            Err(RecvTimeoutError::Timeout) => bail!("a child process said nothing for {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("a child process ended too early, with {}", self.child.wait()?)
            }
        }
    }

    /// Says a word to the child.
    ///
    /// # Errors
    /// When it does not listen any more.
    pub fn tell(&mut self, word: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the child process was finished before")?;
        writeln!(input, "{word}").and_then(|()| input.flush()).context("a child process does not listen")
    }

    /// The processor time that the child has used, in seconds.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        machine::cpu_seconds(self.child.id())
    }

    /// As [`machine::threads_seconds`] of the child.
    ///
    /// # Errors
    /// As there.
    pub fn threads_seconds(&self) -> anyhow::Result<f64> {
        machine::threads_seconds(self.child.id())
    }

    /// As [`machine::memory_kib`] of the child.
    ///
    /// # Errors
    /// As there.
    pub fn memory_kib(&self) -> anyhow::Result<f64> {
        machine::memory_kib(self.child.id())
    }

    /// Ends the child and waits for it.
    ///
    /// # Errors
    /// When it ended badly.
    pub fn finish(mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        // Whatever it still says is of no interest, but it must be able to say it.
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("a child process does not end"),
            }
        }
        if let Some(reading) = self.reading.take() {
            let _ = reading.join();
        }
        let status = self.child.wait()?;
        if !status.success() {
            bail!("a child process ended with {status}");
        }
        Ok(())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Both fail when it has ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
