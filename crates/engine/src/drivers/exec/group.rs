//! A command with all that it starts: a process group of its own, which ends with the run.

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Code(i32),
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exited with code {code}"),
            Exit::Signal(signal) => write!(f, "was ended by signal {signal}{}", signal_name(*signal)),
        }
    }
}

/// The command's process and its group. Dropped, whatever is left of the group is killed at once, and the runtime reaps
/// the process.
pub(super) struct ProcessGroup {
    child: Child,
    /// The number of the process, and so of the group that it began. `None` once nothing may be sent to it any more.
    id: Option<Pid>,
    exit: Option<Exit>,
}

impl ProcessGroup {
    /// The group of a process that was started as the first of a new one.
    pub(super) fn new(child: Child) -> ProcessGroup {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        ProcessGroup { child, id, exit: None }
    }

    /// The process that the command is.
    pub(super) fn process(&self) -> Option<Pid> {
        self.id
    }

    /// Waits until the command's process has exited. What it started may still be there. May be dropped and called again.
    ///
    /// The process is left to be reaped: until then its number is nobody else's, and the group can be signalled safely.
    pub(super) async fn exited(&mut self) -> io::Result<Exit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let Some(id) = self.id else { return Err(io::Error::other("the process was let go")) };
        // Listening first, so that no exit falls between the look and the wait.
        let mut children = signal(SignalKind::child())?;
        loop {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if let Some(exit) = waitid(WaitId::Pid(id), look)?.as_ref().and_then(exit_of) {
                self.exit = Some(exit);
                return Ok(exit);
            }
            children.recv().await;
        }
    }

    /// Asks the whole group to end (SIGTERM), and kills what is left of it once the command has exited or so much time has
    /// passed.
    pub(super) async fn end(&mut self, grace: Duration) {
        self.signal(Signal::TERM);
        let _ = tokio::time::timeout(grace, self.exited()).await;
        self.kill();
        let _ = self.child.wait().await;
    }

    /// Kills what is left of the group (SIGKILL). From here on nothing is sent to it any more.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.id = None;
    }

    fn signal(&self, signal: Signal) {
        let Some(id) = self.id else { return };
        // That nothing is left of a group is what the signal is for, and no error.
        let _ = kill_process_group(id, signal);
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

fn exit_of(status: &WaitIdStatus) -> Option<Exit> {
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => " (SIGINT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}
